#include "fuzz/reader_check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "analysis/prices.h"
#include "base/units.h"
#include "hardware/hardware.h"
#include "plan/plan.h"
#include "trace/trace_file.h"

namespace teraio::testing {
namespace {

// A file in memory; `path` can be opened as often as one likes.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fuzzed", 0)) {}
  MemoryFile(const uint8_t* bytes, size_t size) : MemoryFile() {
    for (size_t done = 0; done < size;) {
      const ssize_t got = write(descriptor_, bytes + done, size - done);
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// A place for a file that is written as a whole, beside itself first.
class ScratchPath {
 public:
  ScratchPath()
      : path_(std::filesystem::temp_directory_path() /
              ("teraio-fuzz-" + std::to_string(getpid()) + ".json")) {}
  ~ScratchPath() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string complaint_about_refusal(const Status& status, const std::filesystem::path& path) {
  const bool names_file = status.message().rfind(path.string() + ": ", 0) == 0;
  const bool tells = status.message().find("expected") != std::string::npos;
  if (status.code() == ErrorCode::kInvalidArgument && names_file && tells) return "";
  return "a refusal without file or expectation: " + status.message();
}

// The trace of tests/data/corpus/trace/good.json, as far as plans refer to it.
const trace::Trace& planned_trace() {
  static const trace::Trace trace = {"t",
                                     "modelled",
                                     {{7, 100, true, trace::TensorKind::kParameter, ""},
                                      {9, 50, false, trace::TensorKind::kActivation, ""}},
                                     {{"a", 10, {0}, {1}, {}, 0}, {"b", 10, {0, 1}, {}, {1}, 0}}};
  return trace;
}

template <typename Value, typename Read, typename Validate, typename Write>
std::string check(const MemoryFile& file, Read read, Validate validate, Write write) {
  const Result<Value> value = read(file.path());
  if (!value.ok()) return complaint_about_refusal(value.status(), file.path());
  if (const Status valid = validate(*value); !valid.ok())
    return "accepted what is not valid: " + valid.message();
  const ScratchPath scratch;
  if (const Status written = write(*value, scratch.path()); !written.ok())
    return "accepted what cannot be written: " + written.message();
  const Result<Value> copy = read(scratch.path());
  if (!copy.ok()) return "wrote what it refuses: " + copy.status().message();
  return *copy == *value ? "" : "a value that is another one after writing and reading";
}

// The prices of a file have no writer. What follows from them is a number for any of them.
std::string check_prices(const MemoryFile& file) {
  const Result<analysis::Prices> prices = analysis::read_prices(file.path());
  if (!prices.ok()) return complaint_about_refusal(prices.status(), file.path());
  const analysis::Cost cost = analysis::cost_of(*prices, {}, kGiB, {}, std::nullopt);
  return cost.price >= 0 ? "" : "prices from which a price below 0 follows, or none";
}

}  // namespace

std::string complaint_about_readers(const uint8_t* bytes, size_t size) {
  const MemoryFile file(bytes, size);
  std::string found = check<trace::Trace>(
      file, trace::read_trace, [](const trace::Trace& trace) { return validate(trace); },
      trace::write_trace);
  if (found.empty())
    found = check<hardware::Hardware>(
        file, hardware::read_hardware,
        [](const hardware::Hardware& hardware) { return validate(hardware); },
        hardware::write_hardware);
  if (found.empty())
    found = check<plan::Plan>(
        file, [](const auto& path) { return plan::read_plan(path, planned_trace()); },
        [](const plan::Plan&) { return Status(); },
        [](const plan::Plan& plan, const auto& path) {
          return write_plan(plan, planned_trace(), path);
        });
  return found.empty() ? check_prices(file) : found;
}

}  // namespace teraio::testing
