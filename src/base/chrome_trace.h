// ChromeTrace: a timeline as a file of Chrome trace events, which ui.perfetto.dev and
// chrome://tracing open, and which torch.profiler writes too.
//
// A process has rows ("threads" in the format) with spans, and levels ("counters"). The spans of a
// row must nest: readers drop the others, or report them as errors.
//
// A value. The text of the file grows as events are added.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace teraio {

class ChromeTrace {
 public:
  using Details = nlohmann::ordered_json;

  // Of one process. The file counts time from `origin_ns` on.
  explicit ChromeTrace(int64_t process = 1, int64_t origin_ns = 0)
      : process_(process), origin_ns_(origin_ns) {}

  void name_process(std::string_view name);
  // Rows are shown in the order of their numbers.
  void name_row(int64_t row, std::string_view name);
  void add_span(int64_t row, std::string_view name, int64_t start_ns, int64_t end_ns,
                const Details& details);
  // The level, a number of bytes, from `time_ns` on.
  void add_level(std::string_view name, int64_t time_ns, int64_t size_bytes);

  // The file. `header` has further fields beside the events.
  std::string text(const Details& header = Details::object()) const;

 private:
  void add(const Details& event);

  int64_t process_;
  int64_t origin_ns_;
  std::string events_;
};

}  // namespace teraio
