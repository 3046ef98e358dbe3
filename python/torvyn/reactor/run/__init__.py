"""One run of a Plan, from its components to its last statistics.

execution          one run of a Plan
run_control        cancels a run, and notifies those who wait for it
run_setup          the runners and grants of one run
native_flow        a Plan and its runners as the native core takes them
aggregator_checks  refuses aggregators that would lose elements in a crash
method_binding     the methods of an inline component, fetched once
stored_shape       refuses a flow that has no place for what is stored
component_state    the state of a component, from one instance to another
run_swaps          what a swap changes in a run
lifecycle          the start and the end of all components
cpu_throttle       delays sources so that a flow stays within its share of the CPU
run_statistics     statistics and trace of one run
error_log          logs the errors that a policy tolerates
refused_elements   stores what nodes refuse for good
"""
