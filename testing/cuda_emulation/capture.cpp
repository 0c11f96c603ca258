#include "testing/cuda_emulation/capture.h"

#include <algorithm>
#include <utility>

namespace teraio::testing::emulated_cuda {

cudaError_t Captures::begin(Stream& stream, cudaStreamCaptureMode mode) {
  if (stream.is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id_;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  active_.push_back(capture);
  join(stream, capture);
  return cudaSuccess;
}

void Captures::join(Stream& stream, const std::shared_ptr<Capture>& capture) {
  if (stream.capture == capture) return;
  stream.capture = capture;
  capture->streams.push_back(&stream);
}

cudaError_t Captures::end(Stream& stream, Graph** graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr || capture->origin != &stream) return cudaErrorIllegalState;
  for (Stream* each : capture->streams) each->capture = nullptr;
  active_.erase(std::find(active_.begin(), active_.end(), capture));
  if (capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
  *graph = new Graph{std::move(capture->tasks)};
  return cudaSuccess;
}

bool Captures::allow_unsafe_call(cudaStreamCaptureMode mode) {
  bool is_allowed = true;
  for (const std::shared_ptr<Capture>& capture : active_) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool is_forbidden =
        mode != cudaStreamCaptureModeRelaxed && capture->mode != cudaStreamCaptureModeRelaxed &&
        (is_own ||
         (mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal));
    capture->is_invalid |= is_forbidden;
    is_allowed &= !is_forbidden;
  }
  return is_allowed;
}

}  // namespace teraio::testing::emulated_cuda
