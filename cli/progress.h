// Progress: shows one line on the terminal about the work under way. It prints nothing when stderr
// is not a terminal.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace teraio::cli {

class Progress {
 public:
  Progress() : shown_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { show(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Replaces the line with `what`.
  void show(std::string_view what) {
    if (shown_) fmt::print(stderr, "\r\033[K{}", what);
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

}  // namespace teraio::cli
