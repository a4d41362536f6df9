// Parameters of built-in models: what is refused, in which words, and that the least ones build.
#include <gtest/gtest.h>

#include <string>

#include "neap/builtin_models.h"
#include "neap/error.h"
#include "neap/train.h"

namespace neap {
namespace {

std::string refusal(const std::string& text) {
  try {
    open_builtin_model(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "none";
}

void expect_refused(const std::string& text, const std::string& words) {
  EXPECT_NE(refusal(text).find(words), std::string::npos) << text << ": " << refusal(text);
}

TEST(ModelParameters, CountsAreWholeAndFromOneOn) {
  EXPECT_EQ(refusal("mlp:hidden=0"),
            "model 'mlp': '0' is not a value for 'hidden'; it takes a whole number from 1 to 1048576");
  for (const char* bad : {"0", "-1", "1.9", "1e9", "nan", "inf", "1e400", "many", "", "3x"}) {
    for (const ModelInfo* info : models()) {
      for (const ModelParameter& p : info->parameters) {
        if (p.name == "dropout") continue;
        const std::string text = std::string(info->name) + ":" + std::string(p.name) + "=" + bad;
        expect_refused(text, "'" + std::string(p.name) + "'; it takes a whole number from 1 to ");
      }
    }
  }
  expect_refused("gpt-mini:layers", "'' is not a value for 'layers'");
  expect_refused("gpt-mini:layers=1001", "from 1 to 1000");
  EXPECT_EQ(refusal("gpt-mini:layers=1e3,vocab=16777216"), "none");
}

TEST(ModelParameters, DropoutIsAShare) {
  for (const char* bad : {"1", "-0.1", "1.5", "nan"}) {
    expect_refused(std::string("gpt-mini:dropout=") + bad, "'dropout'; it takes a share from 0 on and below 1");
  }
  EXPECT_EQ(refusal("gpt-mini:dropout=0"), "none");
  EXPECT_EQ(refusal("cnn:dropout=0.99"), "none");
}

TEST(ModelParameters, AreGivenOnce) {
  expect_refused("gpt-mini:layers=2,layers=3", "'layers' is given twice");
  expect_refused("gpt-mini:layers=2,layers=2", "'layers' is given twice");
}

TEST(ModelParameters, HeadsDivideTheWidth) {
  expect_refused("gpt-mini:heads=7,width=64", "'heads' must divide 'width', and 7 does not divide 64");
  expect_refused("bert-mini:heads=512", "and 512 does not divide 256");
  expect_refused("gpt2:width=100", "and 12 does not divide 100");
  EXPECT_EQ(refusal("gpt-mini:heads=7,width=63"), "none");
}

TEST(ModelParameters, TheLeastOnesCanBePlanned) {
  for (const char* model :
       {"mlp:hidden=1", "gpt-mini:width=1,layers=1,heads=1,vocab=1,context=2", "lstm-lm:hidden=1,layers=1,vocab=1",
        "bert-mini:width=1,layers=1,heads=1,vocab=1,context=2", "gru-lm:hidden=1,layers=1,vocab=1,chunk=1"}) {
    TrainOptions options;
    options.model = model;
    options.batch = options.length = 2;
    if (std::string(model).starts_with("mlp")) options.length = 0;
    EXPECT_GT(plan_training(open_builtin_model(model), options).peak_bytes, 0) << model;
  }
}

}  // namespace
}  // namespace neap
