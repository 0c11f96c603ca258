#include "io/diverted_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace teraio::io {

DivertedOutput::DivertedOutput() : output_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) {
  if (output_ < 0) return;
  std::fflush(stdout);
  dup2(STDERR_FILENO, STDOUT_FILENO);
}

DivertedOutput::~DivertedOutput() {
  if (output_ < 0) return;
  std::fflush(stdout);
  dup2(output_, STDOUT_FILENO);
  close(output_);
}

}  // namespace teraio::io
