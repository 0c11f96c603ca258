// Living objects: finds objects of the interpreter among all that the garbage collector knows.
//
// Python code must not call gc.get_objects() for this. Its list refers also to the tuples that
// other threads are still making, and a tuple with a second reference cannot grow: their
// `tuple(generator)` fails with a SystemError. Here, no other thread runs while such references
// exist.
#pragma once

#include <pybind11/pybind11.h>

namespace teraio::pytorch {

// Returns the objects of a type and of those derived from it, whatever their `__class__` says. The
// type is not one whose objects Python changes while it makes them, such as tuple. Threads: any,
// with the GIL. Raises as Python does when memory runs out.
pybind11::list living_instances(const pybind11::type& type);

// Adds the function living_instances to `module`. Needs the GIL.
void bind_living_objects(pybind11::module_& module);

}  // namespace teraio::pytorch
