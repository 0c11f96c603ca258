// DivertedOutput: while it lives, what is printed to standard output goes to standard error.
//
// For libraries that print there: the output of a program belongs to its reader, who may be another
// program. It is the process's output, so that what other threads print meanwhile is diverted, too.
//
// Threads: one at a time in the process.
#pragma once

namespace teraio::io {

class DivertedOutput {
 public:
  DivertedOutput();
  ~DivertedOutput();
  DivertedOutput(const DivertedOutput&) = delete;
  DivertedOutput& operator=(const DivertedOutput&) = delete;

 private:
  const int output_;  // a copy of standard output; -1 where there is none, and nothing is diverted
};

}  // namespace teraio::io
