#include "op_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>

#include "base/log.h"
#include "interrupts.h"

namespace teraio::pytorch {

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
