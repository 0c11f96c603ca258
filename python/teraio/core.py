"""The compiled extension for the PyTorch that is here.

Importing this module raises ImportError when no extension serves that PyTorch.
"""

from teraio import extension

_extension = extension.load()

CallbackOps = _extension.CallbackOps
ComparisonPeriod = _extension.ComparisonPeriod
DrySession = _extension.DrySession
DryTrace = _extension.DryTrace
OpaqueOp = _extension.OpaqueOp
Pin = _extension.Pin
ReducerHooks = _extension.ReducerHooks
Session = _extension.Session
available_memory_bytes = _extension.available_memory_bytes
begin_coalescing = _extension.begin_coalescing
bytes_version = _extension.bytes_version
call_on_parts = _extension.call_on_parts
default_budget_bytes = _extension.default_budget_bytes
describe = _extension.describe
device_memory_bytes = _extension.device_memory_bytes
end_coalescing = _extension.end_coalescing
fail_coalescing = _extension.fail_coalescing
forget_python_threads = _extension.forget_python_threads
running_op = _extension.running_op
is_this_thread_observed = _extension.is_this_thread_observed
keep_in_place = _extension.keep_in_place
living_instances = _extension.living_instances
note_captures = _extension.note_captures
note_python_kernel = _extension.note_python_kernel
observe_python_threads = _extension.observe_python_threads
observe_this_thread = _extension.observe_this_thread
observed_empty_strided = _extension.observed_empty_strided
observed_kernel = _extension.observed_kernel
observer_dispatch_key = _extension.observer_dispatch_key
original_c_function = _extension.original_c_function
pin_address = _extension.pin_address
pin_until_op_ends = _extension.pin_until_op_ends
replace_c_function = _extension.replace_c_function
restore_c_function = _extension.restore_c_function
set_options_for_tests = _extension.set_options_for_tests
set_verbose = _extension.set_verbose
threads_in_unfinished_ops = _extension.threads_in_unfinished_ops
use_copy = _extension.use_copy
watch_exchange_table = _extension.watch_exchange_table
workspace_of = _extension.workspace_of
write_copy = _extension.write_copy
