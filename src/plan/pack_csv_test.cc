#include "plan/pack_csv.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "neap/error.h"

namespace neap {
namespace {

void expect_refused(const std::string& text, const std::string& names) {
  try {
    parse_pack_csv(text, "a.csv");
    ADD_FAILURE() << "accepted: " << text;
  } catch (const UserError& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.starts_with("a.csv")) << what;
    EXPECT_NE(what.find(names), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

TEST(PackCsv, ReadsRows) {
  const PackTable t = parse_pack_csv("id,lower,upper,size\n0,1,2,3\nb,-4,5,6\n", "a.csv");
  EXPECT_EQ(t.ids, (std::vector<std::string>{"0", "b"}));
  EXPECT_EQ(t.items,
            (std::vector<PackItem>{{.lower = 1, .upper = 2, .size = 3}, {.lower = -4, .upper = 5, .size = 6}}));
}

TEST(PackCsv, ReadsWhatOtherProgramsWrite) {
  const PackTable plain = parse_pack_csv("id,lower,upper,size\nx,1,2,3\n", "a.csv");
  for (const std::string text :
       {"\xEF\xBB\xBFid,lower,upper,size\r\nx,1,2,3\r\n", "size,upper,lower,id\n3,2,1,x",
        "\n id , lower,upper,\tsize\n\nx, 1 ,2,3\n \n", "\"id\",lower,upper,size\n\"x\" ,1,\"2\",3\n",
        "id,lower,upper,size,offset\nx,1,2,3,77\n"}) {
    const PackTable t = parse_pack_csv(text, "a.csv");
    EXPECT_EQ(t.ids, plain.ids) << text;
    EXPECT_EQ(t.items, plain.items) << text;
  }
  EXPECT_TRUE(parse_pack_csv("id,lower,upper,size\n", "a.csv").items.empty());
}

TEST(PackCsv, RefusesHeaders) {
  expect_refused("", "no header");
  expect_refused("\n\n", "no header");
  expect_refused("0,1,2,3\n", "a.csv:1: unknown column '0'");
  expect_refused("id,lower,upper\n", "'size' is missing");
  expect_refused("id,lower,upper,size,size\n", "'size' is there twice");
  expect_refused("id,lower,upper,size,colour\n", "'colour'");
  expect_refused("id;lower;upper;size\n", "unknown column");
  expect_refused(std::string("\0\0\x01\x02", 4), "unknown column");
}

TEST(PackCsv, RefusesRows) {
  const std::string header = "id,lower,upper,size\n0,0,1,1\n";
  expect_refused(header + "1,2,3\n", "a.csv:3: 3 fields");
  expect_refused(header + "1,2,3,4,5\n", "a.csv:3: 5 fields");
  expect_refused(header + "\n1,2,3,\n", "a.csv:4: size '' is not a whole number");
  expect_refused(header + "1,2,3,4.5\n", "size '4.5'");
  expect_refused(header + "1,2,3,1e6\n", "size '1e6'");
  expect_refused(header + "1,two,3,4\n", "lower 'two'");
  expect_refused(header + "1,2,3,+4\n", "size '+4'");
  expect_refused(header + "1,2,3,0x4\n", "size '0x4'");
  expect_refused(header + "1,3,3,4\n", "lower 3 is not below upper 3");
  expect_refused(header + "1,4,3,4\n", "lower 4 is not below upper 3");
  expect_refused(header + "1,2,3,-4\n", "size -4 is negative");
  expect_refused(header + "0,2,3,4\n", "id '0' is on line 2 already");
  expect_refused(header + ",2,3,4\n", "id is empty");
  expect_refused(header + "\xFF,2,3,4\n", "not UTF-8");
  expect_refused(header + "\xED\xA0\x80,2,3,4\n", "not UTF-8");
  expect_refused(header + "1,2,3,99999999999999999999999\n", "beyond 2^62");
  expect_refused(header + "1,-9223372036854775808,3,4\n", "beyond 2^62");
  expect_refused(header + "1,2,9223372036854775807,4\n", "beyond 2^62");
  expect_refused(header + "1,2,3,4611686018427387904\n", "add up");
  expect_refused(header + "\"1,2,3,4\n", "not closed");
  expect_refused(header + "\"1\"x,2,3,4\n", "closing quote");
}

TEST(PackCsv, WritesWhatItReads) {
  const std::string text = "id,lower,upper,size\n\"a,b\",1,2,3\n\"say \"\"x\"\"\",1,2,3\n\u00e9,1,2,0\n";
  const PackTable t = parse_pack_csv(text, "a.csv");
  EXPECT_EQ(t.ids, (std::vector<std::string>{"a,b", "say \"x\"", "\u00e9"}));
  const std::string out = to_csv(t, {0, 3, 0});
  EXPECT_EQ(out, "id,lower,upper,size,offset\n\"a,b\",1,2,3,0\n\"say \"\"x\"\"\",1,2,3,3\n\u00e9,1,2,0,0\n");
  EXPECT_EQ(parse_pack_csv(out, "a.csv").items, t.items);
}

// Whatever stands in a file, it is a table or a UserError.
TEST(PackCsv, SurvivesDamage) {
  RandomStream random(41);
  const std::string good = "id,lower,upper,size\n0,10,20,30\n\"1\",5,15,4096\n2,0,99,123456789\n";
  const std::string letters = "0123456789-,\"\r\n abc\xFF\xC3\xA9";
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (std::uint64_t k = 1 + random.below(4); k > 0; --k) {
      const std::size_t at = random.below(text.size());
      const char c = letters[random.below(letters.size())];
      if (const auto what = random.below(3); what == 0) {
        text[at] = c;
      } else if (what == 1) {
        text.insert(at, 1, c);
      } else {
        text.erase(at, 1 + random.below(3));
      }
    }
    try {
      const PackTable t = parse_pack_csv(text, "a.csv");
      EXPECT_EQ(t.ids.size(), t.items.size());
      ++accepted;
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19'900);
}

}  // namespace
}  // namespace neap
