#include "interrupts.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <signal.h>
#include <torch/csrc/Exceptions.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "python_lock.h"
#include "running_op.h"

namespace py = pybind11;

namespace teraio::pytorch {
namespace {

using Handler = void (*)(int);

constexpr std::chrono::milliseconds kMainThreadLimit(1000);
constexpr std::chrono::milliseconds kLookInterval(5);

std::atomic<uint64_t> interrupt_count = 0;
std::atomic<uint64_t> handled_count = 0;
std::atomic<Handler> python_handler = nullptr;
std::atomic<bool> is_counting = false;
std::atomic<bool> main_waits_for_lock = false;
std::atomic<bool> main_raises = false;  // and needs the lock on its way out of the call

thread_local uint64_t mark_of_wait = 0;                 // the newest of this thread
thread_local std::optional<python_error> raised_error;  // by a handler, on this thread

// Counts what Python knows already: it may be another thread that a signal interrupts, and the main
// thread asks Python once for each count.
void count_interrupt(int number) {
  if (const Handler handler = python_handler.load(std::memory_order_relaxed)) handler(number);
  interrupt_count.fetch_add(1, std::memory_order_release);
}

bool is_handled_by(Handler handler) {
  struct sigaction current = {};
  return sigaction(SIGINT, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
         current.sa_handler == handler;
}

void set_handler(Handler handler) {
  struct sigaction action = {};
  if (sigaction(SIGINT, nullptr, &action) != 0) return;
  action.sa_handler = handler;
  sigaction(SIGINT, &action, nullptr);
}

void keep_counting() {
  const Handler handler = python_handler.load(std::memory_order_relaxed);
  if (!is_counting.load(std::memory_order_relaxed) || !is_handled_by(handler)) return;
  set_handler(&count_interrupt);
  // One that came since the program set its handler was not counted: the main thread asks once.
  interrupt_count.fetch_add(1, std::memory_order_release);
}

// Python calls it in its main thread, after the handlers of signals.
int note_handled(void* count) {
  handled_count.store(reinterpret_cast<uintptr_t>(count), std::memory_order_relaxed);
  return 0;
}

// Returns the Python function that handles SIGINT. Needs the GIL.
py::object handler_in_python() {
  const py::module_ module = py::module_::import("signal");
  return module.attr("getsignal")(py::int_(SIGINT));
}

bool is_left_to_python() {
  return handler_in_python().is(py::module_::import("signal").attr("default_int_handler"));
}

// Keeps the error that Python has set on this thread. Needs the GIL.
void keep_raised_error() {
  raised_error.emplace();
  raised_error->persist();
}

// Raises what raise_after_op() has left for this thread. Needs the GIL.
bool raise_now() {
  PyObject* type = PyThreadState_Get()->async_exc;
  if (type == nullptr) return false;
  PyErr_SetNone(type);
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), nullptr);
  return true;
}

// Waits without the GIL, and no longer than kMainThreadLimit. Returns the condition's last value.
bool wait_for_main_thread(const auto& condition) {
  std::optional<py::gil_scoped_release> no_gil;
  if (PyGILState_Check() != 0) no_gil.emplace();
  const auto end = std::chrono::steady_clock::now() + kMainThreadLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLookInterval);
  }
  return true;
}

}  // namespace

Interrupts& Interrupts::instance() {
  static auto* instance = new Interrupts();  // a wait may outlive static objects
  return *instance;
}

void Interrupts::start() {
  main_thread_ =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<uint64_t>();
  struct sigaction current = {};
  if (!PyCallable_Check(handler_in_python().ptr()) || sigaction(SIGINT, nullptr, &current) != 0 ||
      (current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler == SIG_DFL ||
      current.sa_handler == SIG_IGN)
    return;
  if (current.sa_handler != &count_interrupt)
    python_handler.store(current.sa_handler, std::memory_order_relaxed);
  is_counting.store(true, std::memory_order_relaxed);
  set_handler(&count_interrupt);
}

void Interrupts::stop() {
  is_counting.store(false, std::memory_order_relaxed);
  // The handler stays known: a signal may be on its way to ours.
  if (is_handled_by(&count_interrupt)) set_handler(python_handler.load(std::memory_order_relaxed));
}

bool Interrupts::is_main_thread() const { return PyThread_get_thread_ident() == main_thread_; }

uint64_t Interrupts::mark() {
  keep_counting();
  if (is_main_thread()) main_raises = false;
  mark_of_wait =
      is_main_thread() ? seen_by_main_.load() : interrupt_count.load(std::memory_order_acquire);
  return mark_of_wait;
}

bool Interrupts::has_come_since(uint64_t mark) {
  keep_counting();
  const uint64_t count = interrupt_count.load(std::memory_order_acquire);
  return count != mark ||
         (main_waits_for_lock.load() && (main_raises.load() || count != seen_by_main_.load()));
}

bool Interrupts::ends_call() {
  const uint64_t count = interrupt_count.load(std::memory_order_acquire);
  if (!is_main_thread()) {
    if (count != mark_of_wait) return !does_main_thread_answer(count);
    wait_for_main_thread([] { return !main_waits_for_lock.load(); });
    return false;
  }
  seen_by_main_ = count;
  main_raises = handle_signals();
  handled_count.store(count, std::memory_order_relaxed);
  return main_raises;
}

bool Interrupts::wait_for_lock(const std::function<void()>& wait) {
  if (!is_main_thread()) return wait_without_python_lock(wait);
  main_waits_for_lock = true;
  if (!wait_without_python_lock(wait)) wait();
  main_waits_for_lock = false;
  return true;
}

bool Interrupts::handle_signals() {
  const py::gil_scoped_acquire gil;
  const ObservedParts parts;  // the handlers' ops use any tensor
  if (PyErr_CheckSignals() == 0 && !raise_now()) return false;
  keep_raised_error();
  return true;
}

bool Interrupts::does_main_thread_answer(uint64_t count) const {
  Py_AddPendingCall(&note_handled, reinterpret_cast<void*>(static_cast<uintptr_t>(count)));
  if (wait_for_main_thread([&] { return handled_count.load() >= count; })) return true;
  const py::gil_scoped_acquire gil;
  if (!is_left_to_python()) return true;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  keep_raised_error();
  return false;
}

Status keep_raised() {
  keep_raised_error();
  return Status(ErrorCode::kInterrupted, raised_error->what());
}

void raise_after_op(const py::error_already_set& error) {
  if (error.matches(PyExc_Exception)) return;  // of our own code, while the interpreter ends
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error.type().ptr());
}

void throw_interrupt(const Status& status) {
  if (!raised_error) TORCH_CHECK(false, "TERAIO: ", full_text(status));
  python_error error = std::move(*raised_error);
  raised_error.reset();
  const py::gil_scoped_acquire gil;
  error.restore();
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    PyErr_Clear();
    PyErr_SetString(PyExc_KeyboardInterrupt, full_text(status).c_str());
  }
  python_error named;
  named.persist();
  throw named;
}

}  // namespace teraio::pytorch
