#include "testing/program_stream.h"

namespace teraio::testing {

Result<std::unique_ptr<ProgramStream>> make_program_stream() {
  return Status(ErrorCode::kUnsupported, "cuda: this build has no CUDA");
}

}  // namespace teraio::testing
