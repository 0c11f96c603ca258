#include "escapes/c_functions.h"

#include <ATen/dlpack.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

constexpr size_t kReplacementsMax = 64;

// One replacement of an entry of a method table.
struct Replacement {
  PyMethodDef* entry = nullptr;  // null: free
  PyMethodDef original = {};     // the entry as it was
  PyObject* wrapper = nullptr;   // what is called instead
  bool is_method = false;        // the wrapper gets the object, too
};

std::array<Replacement, kReplacementsMax> replacements;  // the later ones of an entry are newer

PyObject* call_wrapper(const Replacement& replacement, PyObject* self, PyObject* positional,
                       PyObject* keywords) {
  const auto wrapper = py::reinterpret_borrow<py::object>(replacement.wrapper);
  if (!replacement.is_method) return PyObject_Call(wrapper.ptr(), positional, keywords);
  const auto first = py::reinterpret_steal<py::object>(PyTuple_Pack(1, self));
  const auto all = py::reinterpret_steal<py::object>(PySequence_Concat(first.ptr(), positional));
  return all ? PyObject_Call(wrapper.ptr(), all.ptr(), keywords) : nullptr;
}

// The functions that take the place of replacement number i, by calling convention.
template <size_t i>
PyObject* call_with_keywords(PyObject* self, PyObject* positional, PyObject* keywords) {
  return call_wrapper(replacements[i], self, positional, keywords);
}

template <size_t i>
PyObject* call(PyObject* self, PyObject* argument) {
  const Replacement& replacement = replacements[i];
  if ((replacement.original.ml_flags & METH_VARARGS) != 0)
    return call_wrapper(replacement, self, argument, nullptr);
  const bool has_argument = (replacement.original.ml_flags & METH_O) != 0;
  const auto positional =
      py::reinterpret_steal<py::object>(has_argument ? PyTuple_Pack(1, argument) : PyTuple_New(0));
  return call_wrapper(replacement, self, positional.ptr(), nullptr);
}

template <size_t i>
PyObject* call_fast(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const Replacement& replacement = replacements[i];
  const auto wrapper = py::reinterpret_borrow<py::object>(replacement.wrapper);
  if (!replacement.is_method)
    return PyObject_Vectorcall(wrapper.ptr(), arguments, static_cast<size_t>(count), names);
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  std::vector<PyObject*> all = {self};
  all.insert(all.end(), arguments, arguments + count + named);
  return PyObject_Vectorcall(wrapper.ptr(), all.data(), static_cast<size_t>(count) + 1, names);
}

template <typename Function>
PyCFunction as_entry(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

struct Calls {
  PyCFunction plain, with_keywords, fast;
};

template <size_t... i>
auto calls(std::index_sequence<i...> /*all*/) {
  return std::array<Calls, sizeof...(i)>{
      {{&call<i>, as_entry(&call_with_keywords<i>), as_entry(&call_fast<i>)}...}};
}
const auto kCalls = calls(std::make_index_sequence<kReplacementsMax>());

// Returns null for a calling convention that is not known here.
PyCFunction call_of(const Calls& calls, int flags) {
  switch (flags & ~(METH_STATIC | METH_CLASS | METH_COEXIST)) {
    case METH_NOARGS:
    case METH_O:
    case METH_VARARGS:
      return calls.plain;
    case METH_VARARGS | METH_KEYWORDS:
      return calls.with_keywords;
    case METH_FASTCALL | METH_KEYWORDS:
      return calls.fast;
    default:
      return nullptr;
  }
}

// The function itself, of which pybind11 makes a method.
py::handle function_in(py::handle function) {
  return PyInstanceMethod_Check(function.ptr()) ? PyInstanceMethod_GET_FUNCTION(function.ptr())
                                                : function;
}

// Returns the entry of the method table, or null for anything else.
PyMethodDef* entry_of(py::handle function) {
  PyObject* object = function_in(function).ptr();
  if (Py_IS_TYPE(object, &PyMethodDescr_Type))
    return reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
  if (PyCFunction_Check(object)) return reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  return nullptr;
}

// Makes an object of the same kind that calls `entry`, which lives as long as the process.
py::object function_of(py::handle like, PyMethodDef* entry) {
  PyObject* object = function_in(like).ptr();
  PyObject* made = Py_IS_TYPE(object, &PyMethodDescr_Type)
                       ? PyDescr_NewMethod(
                             reinterpret_cast<PyMethodDescrObject*>(object)->d_common.d_type, entry)
                       : PyCFunction_NewEx(entry, PyCFunction_GET_SELF(object),
                                           reinterpret_cast<PyCFunctionObject*>(object)->m_module);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

bool replace(py::handle function, const py::function& wrapper) {
  PyMethodDef* entry = entry_of(function);
  if (entry == nullptr || call_of(kCalls[0], entry->ml_flags) == nullptr) return false;
  const auto original = new PyMethodDef(*entry);  // functions refer to it for ever
  py::object wrapped = wrapper(function_of(function, original));
  const auto last = std::find_if(replacements.rbegin(), replacements.rend(),
                                 [](const Replacement& each) { return each.entry != nullptr; });
  const auto i = static_cast<size_t>(replacements.rend() - last);
  if (i == kReplacementsMax) throw std::runtime_error("too many C functions are replaced");
  const bool is_method = Py_IS_TYPE(function_in(function).ptr(), &PyMethodDescr_Type);
  replacements[i] = {entry, *original, wrapped.release().ptr(), is_method};
  entry->ml_meth = call_of(kCalls[i], entry->ml_flags);
  return true;
}

void restore(py::handle function) {
  PyMethodDef* entry = entry_of(function);
  const auto newest = std::find_if(replacements.rbegin(), replacements.rend(),
                                   [&](const Replacement& each) { return each.entry == entry; });
  if (entry == nullptr || newest == replacements.rend()) return;
  entry->ml_meth = newest->original.ml_meth;
  const auto wrapper = py::reinterpret_steal<py::object>(newest->wrapper);
  *newest = {};
}

py::object original_of(const py::object& function) {
  PyMethodDef* entry = entry_of(function);
  const auto oldest = std::find_if(replacements.begin(), replacements.end(),
                                   [&](const Replacement& each) { return each.entry == entry; });
  if (entry == nullptr || oldest == replacements.end()) return function;
  return function_of(function, new PyMethodDef(oldest->original));
}

// DLPack's tables. Newer versions have a second one, for tensors that nobody changes.
struct ExchangeTable {
  DLPackExchangeAPI* table = nullptr;
  DLPackExchangeAPI original;
  PyObject* on_export = nullptr;
};
std::array<ExchangeTable, 2> exchange_tables;

template <size_t i, auto function, typename Result>
int export_tensor(void* tensor, Result* result) {
  const ExchangeTable& table = exchange_tables[i];
  const auto noted = py::reinterpret_steal<py::object>(
      PyObject_CallOneArg(table.on_export, static_cast<PyObject*>(tensor)));
  return noted ? (table.original.*function)(tensor, result) : -1;
}

template <size_t i>
void watch(DLPackExchangeAPI& table) {
  constexpr auto kManaged = &DLPackExchangeAPI::managed_tensor_from_py_object_no_sync;
  constexpr auto kPlain = &DLPackExchangeAPI::dltensor_from_py_object_no_sync;
  table.*kManaged = &export_tensor<i, kManaged, DLManagedTensorVersioned*>;
  if (table.*kPlain != nullptr) table.*kPlain = &export_tensor<i, kPlain, DLTensor>;
}

void watch_exchange_table(const py::capsule& capsule, py::function on_export) {
  auto* table =
      static_cast<DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (table == nullptr) throw py::error_already_set();
  const size_t i = exchange_tables[0].table == nullptr ? 0 : 1;
  const bool is_known = exchange_tables[0].table == table || exchange_tables[1].table != nullptr;
  if (table->header.version.major != DLPACK_MAJOR_VERSION || is_known) return;
  exchange_tables[i] = {table, *table, on_export.release().ptr()};
  i == 0 ? watch<0>(*table) : watch<1>(*table);
}

}  // namespace

void bind_c_functions(py::module_& module) {
  module.def("replace_c_function", &replace);
  module.def("restore_c_function", &restore);
  module.def("original_c_function", &original_of);
  module.def("watch_exchange_table", &watch_exchange_table);
}

}  // namespace teraio::pytorch
