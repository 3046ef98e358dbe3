"""Access control: who may send requests, and how many.

authentication  an API key to a caller
host_check      the Host and Origin headers
cors            pages of other origins
caller          who sent a request
keyring         the API keys in force
key_file        the API keys on disk, as hashes
key_record      one API key and its limits
key_limits      rate limits and budgets per key
paced_answer    answers no faster than a key allows
admission       the limit of concurrent answers
audit           which keys were used and rejected, and what ran
"""
