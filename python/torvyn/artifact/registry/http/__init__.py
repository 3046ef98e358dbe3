"""Requests to a registry over HTTP.

connection     requests: redirects, retries, time limits
authorization  answers a registry's challenges
challenge      what a registry demands before it answers
credentials    logins of docker's config.json and its helpers
addresses      which addresses a registry may send us to
responses      bodies within limits, and errors for people
"""
