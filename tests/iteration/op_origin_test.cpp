#include "iteration/op_origin.h"

#include <gtest/gtest.h>

namespace teraio::iteration {
namespace {

TEST(OpOriginTest, TextsHaveWhatIsKnown) {
  EXPECT_EQ(text_of({"layers.0.mlp", "model.py:31", false}), "layers.0.mlp (model.py:31)");
  EXPECT_EQ(text_of({"layers.0.mlp", "model.py:31", true}), "layers.0.mlp backward (model.py:31)");
  EXPECT_EQ(text_of({"", "model.py:31", false}), "model.py:31");
  EXPECT_EQ(text_of({"", "model.py:31", true}), "backward (model.py:31)");
  EXPECT_EQ(text_of({"Net", "", false}), "Net");
  EXPECT_EQ(text_of({}), "");
}

TEST(OpOriginTest, KeptTextsStayWhereTheyAre) {
  std::string text = "layers.0";
  const std::string_view kept = kept_text(text);
  text = "layers.1";
  EXPECT_EQ(kept, "layers.0");
  EXPECT_NE(kept_text(text).data(), kept.data());
  EXPECT_EQ(kept_text("layers.0").data(), kept.data());
}

TEST(OriginMemoryTest, KnowsAnOpByAllOpsOfTheIterationUpToIt) {
  OriginMemory memory;
  memory.start_iteration();
  memory.set(memory.key_of_next(1), {"first", "", false});
  memory.set(memory.key_of_next(2), {"second", "", false});

  memory.start_iteration();
  EXPECT_EQ(memory.find(memory.key_of_next(1))->module, "first");
  EXPECT_EQ(memory.find(memory.key_of_next(2))->module, "second");
  EXPECT_EQ(memory.find(memory.key_of_next(3)), nullptr);

  memory.start_iteration();
  EXPECT_EQ(memory.find(memory.key_of_next(2)), nullptr) << "it was the second op";
}

}  // namespace
}  // namespace teraio::iteration
