#include "escapes/living_objects.h"

#include <vector>

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

py::list list_of(const std::vector<py::object>& objects) {
  py::list list;
  for (const py::object& object : objects) list.append(object);
  return list;
}

// Calls `visit` with every object. It must not give up the GIL, run Python code or allocate
// containers of Python: that may start a collection, which runs Python code.
template <typename Visit>
void visit_living_objects(Visit visit) {
  const py::list objects = py::module_::import("gc").attr("get_objects")();
  for (const py::handle object : objects) visit(object.ptr());
}

}  // namespace

py::list living_instances(const py::type& type) {
  auto* wanted = reinterpret_cast<PyTypeObject*>(type.ptr());
  std::vector<py::object> found;
  // isinstance() would run code of the program.
  visit_living_objects([&](PyObject* object) {
    if (PyType_IsSubtype(Py_TYPE(object), wanted))
      found.push_back(py::reinterpret_borrow<py::object>(object));
  });
  return list_of(found);
}

void bind_living_objects(py::module_& module) {
  module.def("living_instances", &living_instances,
             "Returns the living objects of a type and of those derived from it.");
}

}  // namespace teraio::pytorch
