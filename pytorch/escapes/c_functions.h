// C functions: replaces what functions and methods do that PyTorch has written in C.
//
// Python code can reach such a function by many names: that of a class, of a base class, of a
// module that has imported it, of a variable that keeps a bound method. All of them lead to one
// entry of a method table. Its pointer is replaced here, and no name is.
//
// DLPack's exchange table is a table of C functions, too, which libraries read once and keep.
#pragma once

#include <pybind11/pybind11.h>

namespace teraio::pytorch {

// Adds to `module`, for any thread with the GIL:
// - replace_c_function(function, wrapper): from now on, a call of `function`, by whatever name,
//   calls wrapper(original)(*args, **kwargs). False: `function` is not written in C, or has a
//   calling convention that is not known here; nothing has changed. Raises RuntimeError when too
//   many functions are replaced.
// - restore_c_function(function): undoes the newest replacement.
// - original_c_function(function): what does what `function` did before all replacements.
// - watch_exchange_table(capsule, export): calls export(tensor) before a library gets the address
//   of a tensor through the table in `capsule`. It stays so. What `export` raises, the library
//   gets. Has no effect on a table whose version is not known here.
void bind_c_functions(pybind11::module_& module);

}  // namespace teraio::pytorch
