"""What every transport calls to answer a request.

dispatcher     starts, resumes and observes streams
running_calls  the calls, subscribers and channels that are open
service_table  the services by the names that clients use
"""
