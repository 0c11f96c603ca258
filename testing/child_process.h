// exit_code_in_child(): what may end a process, or limits it, in a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace teraio::testing {

// Calls `body` in a forked child. Returns the result of `body` (0 to 255), or -1 if the child ended
// in another way.
template <typename Body>
int exit_code_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace teraio::testing
