#include "storage/load_meter.h"

#include <algorithm>

namespace teraio::storage {
namespace {

constexpr int64_t kSampleNs = 1'000'000'000;
constexpr int32_t kMemorySamples = 8;

}  // namespace

void LoadMeter::add(Load load, int64_t duration_ns, int64_t bytes_read, int64_t bytes_written) {
  Sample& sample = samples_[static_cast<size_t>(load)];
  if (duration_ns > 0 && sample.duration_ns >= kSampleNs) end(sample);
  sample.duration_ns += duration_ns;
  sample.bytes_read += bytes_read;
  sample.bytes_written += bytes_written;
}

void LoadMeter::end(Sample& sample) {
  LoadedRates& rates = sample.rates;
  ++rates.sample_count;
  const double weight = 1.0 / std::min(rates.sample_count, kMemorySamples);
  const double per_second = 1e9 / static_cast<double>(sample.duration_ns);
  const auto approach = [&](double& rate, int64_t bytes) {
    rate += weight * (static_cast<double>(bytes) * per_second - rate);
  };
  approach(rates.read_bytes_per_second, sample.bytes_read);
  approach(rates.write_bytes_per_second, sample.bytes_written);
  sample.duration_ns = sample.bytes_read = sample.bytes_written = 0;
}

}  // namespace teraio::storage
