#include "runtime/prediction.h"

#include <algorithm>

#include "simulate/simulator.h"
#include "trace/trace.h"

namespace teraio::runtime {

Prediction predict(const iteration::Profile& profile, const hardware::Hardware& hardware,
                   const plan::Limits& limits, const plan::Plan& plan) {
  Prediction prediction;
  prediction.limits = limits;
  prediction.hardware = hardware;
  prediction.flops = profile.flops;
  prediction.ideal_ns = trace::ideal_ns(profile.trace);
  if (const Result<simulate::Run> run = simulate::simulate(profile.trace, hardware, limits, plan);
      run.ok())
    prediction.step_ns = run->step_ns;
  return prediction;
}

void Predictions::keep(const std::string& trace_name, Prediction prediction) {
  const std::lock_guard lock(mutex_);
  std::erase_if(predictions_, [&](const auto& each) { return each.first == trace_name; });
  predictions_.emplace_back(trace_name, std::move(prediction));
  if (predictions_.size() > kCountMax) predictions_.pop_front();
}

std::optional<Prediction> Predictions::find(const std::string& trace_name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(predictions_.begin(), predictions_.end(),
                                  [&](const auto& each) { return each.first == trace_name; });
  if (found == predictions_.end()) return std::nullopt;
  return found->second;
}

}  // namespace teraio::runtime
