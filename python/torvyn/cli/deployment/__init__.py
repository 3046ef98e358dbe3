"""The commands of `torvyn deploy`.

generation_commands  add, list, activate, rollback, gc
run_command          run
companions           what runs beside the generation
options              the options that they share
"""
