"""Files for components.

text_files     opens files, with errors that say what to do
append_file    a file of records that are complete or absent
file_position  a position in a file that survives a restart
csv_format     what the CSV source and the CSV sink share
rotation       where a log file went when it was rotated
sqlite_files   SQLite databases
"""
