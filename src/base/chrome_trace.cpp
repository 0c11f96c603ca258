#include "base/chrome_trace.h"

namespace teraio {
namespace {

std::string text_of(const ChromeTrace::Details& value) {
  return value.dump(-1, ' ', false, ChromeTrace::Details::error_handler_t::replace);
}

double microseconds(int64_t duration_ns) { return static_cast<double>(duration_ns) / 1e3; }

}  // namespace

void ChromeTrace::name_process(std::string_view name) {
  add({{"ph", "M"}, {"name", "process_name"}, {"pid", process_}, {"args", {{"name", name}}}});
}

void ChromeTrace::name_row(int64_t row, std::string_view name) {
  add({{"ph", "M"},
       {"name", "thread_name"},
       {"pid", process_},
       {"tid", row},
       {"args", {{"name", name}}}});
  add({{"ph", "M"},
       {"name", "thread_sort_index"},
       {"pid", process_},
       {"tid", row},
       {"args", {{"sort_index", row}}}});
}

void ChromeTrace::add_span(int64_t row, std::string_view name, int64_t start_ns, int64_t end_ns,
                           const Details& details) {
  add({{"ph", "X"},
       {"name", name},
       {"pid", process_},
       {"tid", row},
       {"ts", microseconds(start_ns - origin_ns_)},
       {"dur", microseconds(end_ns - start_ns)},
       {"args", details}});
}

void ChromeTrace::add_level(std::string_view name, int64_t time_ns, int64_t size_bytes) {
  add({{"ph", "C"},
       {"name", name},
       {"pid", process_},
       {"ts", microseconds(time_ns - origin_ns_)},
       {"args", {{"bytes", size_bytes}}}});
}

void ChromeTrace::add(const Details& event) {
  events_ += events_.empty() ? "\n  " : ",\n  ";
  events_ += text_of(event);
}

std::string ChromeTrace::text(const Details& header) const {
  std::string text = "{\n \"displayTimeUnit\": \"ms\"";
  for (const auto& [key, value] : header.items())
    text += ",\n " + text_of(key) + ": " + text_of(value);
  return text + ",\n \"traceEvents\": [" + events_ + "\n ]\n}\n";
}

}  // namespace teraio
