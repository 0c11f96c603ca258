#include "observe/python_threads.h"

#include <Python.h>

#include <unordered_map>
#include <unordered_set>

#include "base/thread_rest.h"
#include "observe/observed_thread.h"

// CPython has no public call that runs code in another thread before 3.12. This one is exported by
// all versions from 3.9 to 3.13, and PyEval_SetProfileAllThreads of 3.12 calls it for each thread.
extern "C" int _PyEval_SetProfile(PyThreadState* thread, Py_tracefunc function, PyObject* object);

namespace teraio::pytorch {
namespace {

struct Profiler {
  Py_tracefunc function = nullptr;
  PyObject* object = nullptr;  // owned
};

struct WaitingThread {
  Profiler own;        // that it had
  uint64_t ident = 0;  // of threading.get_ident()
  ThreadRest rest;
};

// The state of all threads, under the GIL. Ids of threads are never used twice.
struct Threads {
  std::unordered_set<uint64_t> seen;
  std::unordered_map<uint64_t, WaitingThread> waiting;  // not observed yet
};

Threads& threads() {
  static auto* instance = new Threads();  // a thread may still run when the process ends
  return *instance;
}

// The next event of a thread. From here on its ops are observed, and its own profiler is back.
int observe(PyObject* /*object*/, PyFrameObject* frame, int event, PyObject* argument) {
  observe_this_thread(true);
  const auto entry = threads().waiting.extract(PyThreadState_GetID(PyThreadState_Get()));
  const Profiler own = entry.empty() ? Profiler() : entry.mapped().own;
  PyEval_SetProfile(own.function, own.object);
  const int result = own.function == nullptr ? 0 : own.function(own.object, frame, event, argument);
  Py_XDECREF(own.object);
  return result;
}

}  // namespace

void forget_python_threads() {
  threads().seen.clear();
  for (const auto& [thread, waiting] : threads().waiting) threads().seen.insert(thread);
}

void observe_python_threads() {
  observe_this_thread(true);
  PyThreadState* const self = PyThreadState_Get();
  threads().seen.insert(PyThreadState_GetID(self));
  for (PyThreadState* thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
       thread != nullptr; thread = PyThreadState_Next(thread)) {
    if (!threads().seen.insert(PyThreadState_GetID(thread)).second) continue;
    Py_XINCREF(thread->c_profileobj);
    const Profiler own = {thread->c_profilefunc, thread->c_profileobj};
    threads().waiting.emplace(PyThreadState_GetID(thread),
                              WaitingThread{own, thread->thread_id, ThreadRest(thread->thread_id)});
    if (_PyEval_SetProfile(thread, &observe, nullptr) < 0) PyErr_Clear();
  }
}

std::vector<uint64_t> threads_in_unfinished_ops() {
  std::vector<uint64_t> idents;
  for (auto& [id, waiting] : threads().waiting)
    if (!waiting.rest.look()) idents.push_back(waiting.ident);
  return idents;
}

}  // namespace teraio::pytorch
