#include "op_info.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <string_view>
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

// A library that is unloaded and another that is loaded may have a schema at the same address.
bool is_of(const OpInfo& info, const c10::FunctionSchema& schema) {
  return info.argument_count == schema.arguments().size() &&
         std::string_view(info.name).substr(0, schema.name().size()) == schema.name();
}

const OpInfo& cached_info(const c10::FunctionSchema& schema) {
  static thread_local std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> cache;
  std::unique_ptr<OpInfo>& info = cache[&schema];
  if (info == nullptr || !is_of(*info, schema)) info = read_schema(schema);
  return *info;
}

struct RecentOp {
  const c10::FunctionSchema* schema;
  const OpInfo* info;
};

// What a thread has used last, by address: most programs use fewer ops than this holds. Without
// constructor or destructor, as a thread's access to anything else costs more than the look-up.
constexpr size_t kRecentOps = 256;
thread_local RecentOp recent_ops[kRecentOps];

size_t recent_place(const c10::FunctionSchema* schema) {
  const auto address = reinterpret_cast<uintptr_t>(schema);
  return (address / alignof(c10::FunctionSchema) * 0x9e3779b97f4a7c15) >> 56;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  RecentOp& recent = recent_ops[recent_place(&schema)];
  if (recent.schema != &schema || !is_of(*recent.info, schema))
    recent = {&schema, &cached_info(schema)};
  return *recent.info;
}

}  // namespace teraio::pytorch
