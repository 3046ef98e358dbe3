"""The commands of `torvyn deploy`.

generation_commands   add, list, activate, rollback, gc
generation_arguments  how a generation is linked and run
run_command           run
follow_commands       follow, update
channel_commands      channel sign, countersign, rotate, push, show, verify
deployment_unit       the systemd unit of a deployment
companions            what runs beside the generation
options               the options that they share
"""
