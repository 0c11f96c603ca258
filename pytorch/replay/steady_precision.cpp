#include "replay/steady_precision.h"

#include <utility>

namespace teraio::pytorch {

void SteadyPrecision::end_step() {
  const std::lock_guard lock(mutex_);
  first_.reset();
  if (!std::exchange(is_set_up_, true)) holds_ = true;
}

bool SteadyPrecision::holds_for(const CapturedOp& op) {
  const std::lock_guard lock(mutex_);
  for (const CapturedCall& call : op.calls) {
    if (!first_) first_ = call.settings.flags;
    holds_ = holds_ && call.settings.flags.has_precision_of(*first_);
  }
  return holds_;
}

}  // namespace teraio::pytorch
