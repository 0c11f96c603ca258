#include "op_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>

#include "base/log.h"
#include "interrupts.h"
#include "observed_thread.h"

namespace teraio::pytorch {

std::string_view current_op_name() {
  const OpInfo* op = this_thread().op;
  return op == nullptr ? std::string_view() : std::string_view(op->name);
}

void throw_status(const Status& status, std::string_view op_name) {
  if (status.code() == ErrorCode::kInterrupted) throw_interrupt(status);
  const std::string message = fmt::format(
      "TERAIO: {}{}{}", op_name.empty() ? "an allocation outside of an operator" : "op ", op_name,
      status.code() == ErrorCode::kOutOfMemory ? " " + full_text(status)
                                               : ": " + full_text(status));
  TORCH_CHECK_WITH(OutOfMemoryError, status.code() != ErrorCode::kOutOfMemory, message);
  TORCH_CHECK(false, message);
}

}  // namespace teraio::pytorch
