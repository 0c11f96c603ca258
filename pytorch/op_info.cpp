#include "op_info.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

namespace teraio::pytorch {
namespace {

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

std::unique_ptr<OpInfo> read_schema(const c10::FunctionSchema& schema) {
  auto info = std::make_unique<OpInfo>();
  info->name = schema.name();
  if (!schema.overload_name().empty()) info->name += "." + schema.overload_name();
  info->name_hash = XXH3_64bits(info->name.data(), info->name.size());
  info->argument_count = schema.arguments().size();
  info->return_count = schema.returns().size();
  bool has_tensor_argument = false;
  for (const c10::Argument& argument : schema.arguments()) {
    info->is_write.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    has_tensor_argument |= argument.type()->str().find("Tensor") != std::string::npos;
  }
  // A collective's result may still be on its way when the op returns, and a factory's result is
  // often filled in by its caller.
  info->completes_results =
      has_tensor_argument &&
      !starts_with_any(info->name, {"c10d::", "aten::empty", "aten::new_empty"});
  info->is_list_op =
      starts_with_any(info->name, {"aten::_foreach_", "aten::_fused_adam", "aten::_fused_sgd",
                                   "aten::_fused_adagrad", "aten::_amp_foreach_"});
  return info;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  static thread_local std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> cache;
  std::unique_ptr<OpInfo>& info = cache[&op.schema()];
  if (info == nullptr || info->name.empty()) info = read_schema(op.schema());
  return *info;
}

}  // namespace teraio::pytorch
