// Progress: shows one line on the terminal about the work under way, perhaps with a bar. It prints
// nothing when stderr is not a terminal.
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

  // Replaces the line with `what`, a bar and a percentage. `share` is from 0 to 1.
  void show_share(std::string_view what, double share) {
    constexpr int kBarWidth = 30;
    const int done = static_cast<int>(share * kBarWidth);
    show(fmt::format("{} [{:#<{}}{:.<{}}] {:.0f} %", what, "", done, "", kBarWidth - done,
                     100 * share));
  }

 private:
  bool shown_;
};

}  // namespace teraio::cli
