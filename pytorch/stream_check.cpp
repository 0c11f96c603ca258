#include "stream_check.h"

#include "base/log.h"

namespace teraio::pytorch {

void StreamCheck::note_first_op(bool is_elsewhere) {
  const int32_t elsewhere_count =
      elsewhere_count_.fetch_add(is_elsewhere ? 1 : 0) + (is_elsewhere ? 1 : 0);
  if (op_count_.fetch_add(1) + 1 != kOps || elsewhere_count < kOps / 10 * 9) return;
  log_warning(
      "teraio: the program runs on another stream than the one on which the session was entered: "
      "its tensors stay on the GPU. Enter the session inside the torch.cuda.stream() block that "
      "the training uses, or leave that block out");
}

}  // namespace teraio::pytorch
