#include "testing/cuda_emulation/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace teraio::testing::emulated_cuda {
namespace {

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

template <typename Number>
void read_number(const char* name, Number& value) {
  const char* text = variable(name);
  if (text == nullptr) return;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text == '-') {
    std::fprintf(stderr, "emulated CUDA: %s=%s: expected a whole number\n", name, text);
    std::exit(2);
  }
  value = static_cast<Number>(number);
}

}  // namespace

Settings read_settings() {
  Settings settings;
  read_number("TERAIO_EMULATED_CUDA_DEVICES", settings.device_count);
  read_number("TERAIO_EMULATED_CUDA_MEMORY_BYTES", settings.memory_bytes);
  read_number("TERAIO_EMULATED_CUDA_PINNABLE_BYTES", settings.pinnable_bytes);
  read_number("TERAIO_EMULATED_CUDA_GRANULARITY_BYTES", settings.granularity_bytes);
  read_number("TERAIO_EMULATED_CUDA_REGISTERS_HOST", settings.registers_host);
  read_number("TERAIO_EMULATED_CUDA_LAUNCH_QUEUE", settings.launch_queue_length);
  read_number("TERAIO_EMULATED_CUDA_SEED", settings.seed);
  read_number("TERAIO_EMULATED_CUDA_LAZY", settings.is_lazy);
  read_number("TERAIO_EMULATED_CUDA_POISON", settings.poisons);
  read_number("TERAIO_EMULATED_CUDA_UNITS", settings.has_units);
  if (const char* text = variable("TERAIO_EMULATED_CUDA_FORGETS_WAITS_OF"))
    settings.forgets_waits_of = text;
  return settings;
}

}  // namespace teraio::testing::emulated_cuda
