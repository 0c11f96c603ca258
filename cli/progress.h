// Progress: one line on the terminal that says what takes its time. Silent when stderr is a file.
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

  // Replaces the line.
  void show(std::string_view what) {
    if (shown_) fmt::print(stderr, "\r\033[K{}", what);
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

}  // namespace teraio::cli
