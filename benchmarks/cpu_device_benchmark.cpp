// Measures what device memory costs: allocating and releasing a block, and making one block of
// scattered free pages.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/units.h"
#include "device/cpu_device.h"

namespace teraio {
namespace {

std::unique_ptr<device::Device> open(int64_t budget_bytes) {
  return std::move(*device::make_cpu_device(budget_bytes));
}

void allocate_and_release(benchmark::State& state) {
  auto device = open(kGiB);
  for (auto _ : state) {
    std::byte* memory = device->allocate(state.range(0));
    benchmark::DoNotOptimize(memory);
    device->release(memory);
  }
}
BENCHMARK(allocate_and_release)->Arg(256)->Arg(64 * kKiB)->Arg(16 * kMiB);

// With 1,000 live blocks and the holes between them, as in a training step.
void allocate_and_release_among_holes(benchmark::State& state) {
  auto device = open(4 * kGiB);
  std::mt19937_64 random(1);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 2000; ++i) {
    blocks.push_back(device->allocate((1 + random() % 256) * device::kPageBytes));
  }
  for (size_t i = 0; i < blocks.size(); i += 2) device->release(blocks[i]);
  for (auto _ : state) {
    std::byte* memory = device->allocate((1 + random() % 256) * device::kPageBytes);
    benchmark::DoNotOptimize(memory);
    device->release(memory);
  }
}
BENCHMARK(allocate_and_release_among_holes);

constexpr int64_t kStitchedBytes = 64 * kMiB;
constexpr int64_t kHoleBytes = kMiB;

// Free pages of 64 MiB in all, in holes of 1 MiB, all of them touched.
void make_holes(device::Device& device, std::vector<std::byte*>& blocks) {
  for (int64_t i = 0; i < 2 * kStitchedBytes / kHoleBytes; ++i) {
    blocks.push_back(device.allocate(kHoleBytes));
    std::memset(blocks.back(), 1, kHoleBytes);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) device.release(blocks[i]);
}

void stitch_64_mib_of_1_mib_holes(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto device = open(2 * kStitchedBytes);
    std::vector<std::byte*> blocks;
    make_holes(*device, blocks);
    state.ResumeTiming();
    benchmark::DoNotOptimize(device->allocate(kStitchedBytes));
    state.PauseTiming();
    device.reset();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * kStitchedBytes);
}
BENCHMARK(stitch_64_mib_of_1_mib_holes)->Unit(benchmark::kMicrosecond)->Iterations(20);

// The reference: copies the same bytes between pages that have been touched.
void copy_64_mib(benchmark::State& state) {
  std::vector<char> from(kStitchedBytes, 1);
  std::vector<char> to(kStitchedBytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kStitchedBytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kStitchedBytes);
}
BENCHMARK(copy_64_mib)->Unit(benchmark::kMicrosecond)->Iterations(20);

// The first touch of a new block, compared with that of a stitched block, whose pages are mapped
// already.
void touch_64_mib(benchmark::State& state) {
  const bool is_stitched = state.range(0) != 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto device = open(2 * kStitchedBytes);
    std::vector<std::byte*> blocks;
    if (is_stitched) make_holes(*device, blocks);
    std::byte* memory = device->allocate(kStitchedBytes);
    state.ResumeTiming();
    std::memset(memory, 1, kStitchedBytes);
    state.PauseTiming();
    device.reset();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * kStitchedBytes);
}
BENCHMARK(touch_64_mib)
    ->ArgName("stitched")
    ->Arg(0)
    ->Arg(1)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(10);

}  // namespace
}  // namespace teraio

BENCHMARK_MAIN();
