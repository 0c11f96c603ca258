// TERAIO_CHECK(expression): checks an invariant of the program, in every build.
//
// It is for programming errors only; a failure that use can cause is a Status. A failed check
// throws InvariantError with a message that names the expression, the file and the line. The
// bindings turn it into a Python exception, so that a bug ends one training step with a message
// instead of ending the process.
#pragma once

#include <stdexcept>
#include <string>

namespace teraio {

class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void fail_check(const char* expression, const char* file, int line) {
  throw InvariantError(std::string("TERAIO invariant broken: ") + expression + " at " + file + ":" +
                       std::to_string(line));
}

}  // namespace teraio

#define TERAIO_CHECK(expression) \
  (static_cast<bool>(expression) ? void() : ::teraio::fail_check(#expression, __FILE__, __LINE__))
