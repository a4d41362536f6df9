#include "train/data/npy.h"

#include "core/file.h"
#include "core/file_testing.h"
#include "train/data/data_testing.h"
#include "train/data/npz.h"

namespace neap {
namespace {

using testing::expect_user_error;
using testing::little;
using testing::npy;
using testing::npy_dict;
using testing::npy_raw;
using testing::TempDir;
using testing::zip;
using testing::ZipPart;
using Sizes = std::vector<std::int64_t>;

Array read(const std::string& bytes) {
  const TempDir dir;
  return read_npy(dir.file("a.npy", bytes));
}

void expect_refused(const std::string& bytes, std::string_view why) {
  const TempDir dir;
  const auto path = dir.file("bad.npy", bytes);
  expect_user_error([&] { read_npy(path); }, {path.string(), why});
}

void expect_npz_refused(const std::string& bytes, std::string_view why) {
  const TempDir dir;
  const auto path = dir.file("bad.npz", bytes);
  expect_user_error([&] { read_npz(path); }, {path.string(), why});
}

TEST(Npy, EveryType) {
  const Array f4 = read(npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, -6.5F}));
  EXPECT_EQ(f4.dtype, DType::kF32);
  EXPECT_EQ(f4.shape, (Sizes{2, 3}));
  EXPECT_EQ(element<float>(f4, 5), -6.5F);
  const Array f8 = read(npy<double>("<f8", "(2,)", {0.1, -2}));
  EXPECT_EQ(f8.dtype, DType::kF32);
  EXPECT_EQ(element<float>(f8, 0), 0.1F);
  const Array i8 = read(npy<std::int64_t>("<i8", "(1,)", {-(1LL << 40)}));
  EXPECT_EQ(i8.dtype, DType::kI64);
  EXPECT_EQ(integer_at(i8, 0), -(1LL << 40));
  EXPECT_EQ(integer_at(read(npy<std::int32_t>("<i4", "(1,)", {-70000})), 0), -70000);
  EXPECT_EQ(integer_at(read(npy<std::uint32_t>("<u4", "(1,)", {~0U})), 0), 0xffffffffLL);
  EXPECT_EQ(integer_at(read(npy<std::int16_t>("<i2", "(1,)", {-300})), 0), -300);
  const Array u2 = read(npy<std::uint16_t>("<u2", "(1,)", {65000}));
  EXPECT_EQ(u2.dtype, DType::kU16);
  EXPECT_EQ(integer_at(u2, 0), 65000);
  EXPECT_EQ(integer_at(read(npy<std::uint8_t>("|u1", "(1,)", {200})), 0), 200);
  EXPECT_EQ(integer_at(read(npy<std::int8_t>("|i1", "(1,)", {-100})), 0), -100);
  const Array b1 = read(npy<std::uint8_t>("|b1", "(2,)", {1, 0}));
  EXPECT_EQ(b1.dtype, DType::kBool);
  EXPECT_EQ(integer_at(b1, 0), 1);
}

TEST(Npy, VersionsAndSpellings) {
  const std::string data = little<std::uint8_t>({1, 2});
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(read(npy_raw(npy_dict("|u1", "(2,)"), data, version)).shape, Sizes{2});
  }
  EXPECT_EQ(read(npy_raw("{\"shape\":(1,2),\"fortran_order\":False,\"descr\":\"u1\"}", data)).shape, (Sizes{1, 2}));
  EXPECT_EQ(read(npy_raw(npy_dict("|u1", "()"), "x")).shape, Sizes{});
  EXPECT_EQ(read(npy_raw(npy_dict("|u1", "(0, 7)"), "")).shape, (Sizes{0, 7}));
  EXPECT_EQ(read(npy_raw(npy_dict("|u1", "(2,)", "True"), data)).shape, Sizes{2});  // one dimension has one order
}

TEST(Npy, PlainElementsStayInTheMapping) {
  const TempDir dir;
  const Array array = read_npy(dir.file("a.npy", npy<float>("<f4", "(1,)", {1})));
  const auto mapped = std::static_pointer_cast<const MappedFile>(array.owner);
  EXPECT_EQ(array.bytes.data() + 4, mapped->bytes().data() + mapped->size());
}

TEST(Npy, RefusesWhatItCannotRead) {
  expect_refused("", "empty");
  expect_refused("NUMPY", "first bytes");
  expect_refused(npy_raw(npy_dict("|u1", "(1,)"), "x", 4), "version 4");
  expect_refused(npy_raw(npy_dict("<f4", "(2, 2)", "True"), std::string(16, '\0')), "Fortran order");
  expect_refused(npy_raw(npy_dict(">f4", "(1,)"), "1234"), "big-endian");
  expect_refused(npy_raw(npy_dict("|O", "(1,)"), "1234"), "type '|O'");
  expect_refused(npy_raw(npy_dict("<c8", "(1,)"), "12345678"), "type '<c8'");
  expect_refused(npy_raw(npy_dict("<f2", "(1,)"), "12"), "type '<f2'");
  expect_refused(npy_raw(npy_dict("", "(1,)"), "12"), "type ''");
  expect_refused(npy_raw("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"), "structured");
}

TEST(Npy, RefusesSizesThatDoNotHold) {
  expect_refused(npy_raw(npy_dict("<f4", "(2,)"), "1234567"), "7 bytes of data where its header promises 8");
  expect_refused(npy_raw(npy_dict("<f4", "(2,)"), "123456789"), "9 bytes of data");
  expect_refused(npy_raw(npy_dict("<f4", "(4611686018427387904,)"), ""), "too large");
  expect_refused(npy_raw(npy_dict("<f4", "(4294967296, 4294967296)"), ""), "too large");
  expect_refused(npy_raw(npy_dict("<f4", "(0, 4294967296, 4294967296)"), ""), "too large");
  expect_refused(npy_raw(npy_dict("<f4", "(99999999999999999999,)"), ""), "too large");
  expect_refused(npy_raw(npy_dict("<f8", "(2,)"), little<double>({0, -1e39})), "element 1");
}

TEST(Npy, RefusesMalformedHeaders) {
  for (const std::string_view header :
       {"", "{", "{}", "x", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "{'descr': '<f4}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}"}) {
    SCOPED_TRACE(header);
    expect_refused(npy_raw(header, "1234"), "malformed");
  }
  std::string deep = "(";
  for (int i = 0; i < 40; ++i) deep += "1,";
  expect_refused(npy_raw(npy_dict("<f4", deep + ")"), "1234"), "malformed");
  expect_refused(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "NPY header of 4294967295 bytes");
}

TEST(Npy, RefusesEveryPrefix) {
  const std::string whole = npy<float>("<f4", "(2,)", {1, 2});
  for (std::size_t size = 0; size < whole.size(); ++size) expect_refused(whole.substr(0, size), "");
}

TEST(Npz, StoredAndDeflatedArrays) {
  const TempDir dir;
  const std::vector<float> zeros(10'000);
  const std::string x = npy<float>("<f4", "(100, 100)", zeros);
  const std::string y = npy<std::int64_t>("<i8", "(3,)", {7, 8, 9});
  for (const bool end64 : {false, true}) {
    const auto path = dir.file("a.npz", zip({{.name = "x.npy", .data = x, .deflate = true, .zip64 = end64},
                                             {.name = "notes.txt", .data = "hello"},
                                             {.name = "y.npy", .data = y, .zip64 = end64}},
                                            "a comment", end64));
    const std::vector<NamedArray> arrays = read_npz(path);
    ASSERT_EQ(arrays.size(), 2U);
    EXPECT_EQ(arrays[0].name, "x");
    EXPECT_EQ(arrays[0].array.shape, (Sizes{100, 100}));
    EXPECT_EQ(arrays[1].name, "y");
    EXPECT_EQ(integer_at(arrays[1].array, 2), 9);
    const auto mapped = std::static_pointer_cast<const MappedFile>(arrays[1].array.owner);
    EXPECT_EQ(mapped->path(), path) << "a stored array stays in the mapping";
  }
}

const std::string kArray = npy<std::uint8_t>("|u1", "(300,)", std::vector<std::uint8_t>(300, 7));

TEST(Npz, RefusesWhatIsNoArchive) {
  expect_npz_refused("", "empty");
  expect_npz_refused("PK", "no ZIP archive");
  expect_npz_refused(std::string(100'000, 'x'), "no ZIP archive");
  expect_npz_refused(zip({}), "no arrays");
  expect_npz_refused(zip({{.name = "a.txt", .data = "x"}}), "no arrays");
  const std::string whole = zip({{.name = "a.npy", .data = kArray, .deflate = true}});
  for (std::size_t size = 0; size < whole.size(); ++size) expect_npz_refused(whole.substr(0, size), "");
}

TEST(Npz, RefusesDamagedMembers) {
  for (const bool deflate : {false, true}) {
    const ZipPart part = {.name = "a.npy", .data = kArray, .deflate = deflate};
    const auto with = [&](auto change) {
      ZipPart bad = part;
      change(bad);
      return zip({bad});
    };
    expect_npz_refused(with([](ZipPart& p) { p.crc_error = 1; }), "check sum");
    expect_npz_refused(with([](ZipPart& p) { p.flags = 1; }), "encrypted");
    expect_npz_refused(with([](ZipPart& p) { p.method = 12; }), "method 12");
    expect_npz_refused(with([](ZipPart& p) { p.size_error = 1; }), deflate ? "shorter" : "wrong size");
    expect_npz_refused(with([](ZipPart& p) { p.size_error = -1; }), deflate ? "more data" : "wrong size");
    expect_npz_refused(with([](ZipPart& p) { p.data = "no array"; }), "no NPY");
    expect_npz_refused(zip({part, part}), "twice");
  }
  expect_npz_refused(zip({{.name = "a.npy", .data = kArray, .deflate = true, .size_error = 1 << 30}}),
                     "impossible size");
  expect_npz_refused(zip({{.name = "a\n.npy", .data = "x", .crc_error = 1}}), "a\\x0a.npy");
}

// Changes one field of the archive and expects a refusal.
void expect_patch_refused(std::string archive, std::size_t at, std::uint32_t value, std::string_view why) {
  std::memcpy(archive.data() + at, &value, sizeof(value));
  expect_npz_refused(archive, why);
}

TEST(Npz, RefusesABrokenDirectory) {
  const std::string whole = zip({{.name = "a.npy", .data = kArray}, {.name = "b.npy", .data = kArray}});
  const std::size_t end = whole.size() - 22;
  const std::size_t first = whole.find("PK\x01\x02");
  const std::size_t second = whole.find("PK\x01\x02", first + 4);
  expect_patch_refused(whole, end + 4, 1, "split");
  expect_patch_refused(whole, end + 10, 0xffff, "directory");
  expect_patch_refused(whole, end + 12, 5, "directory");
  expect_patch_refused(whole, end + 16, 0xfffffff0, "directory");
  expect_patch_refused(whole, first, 0, "broken");
  expect_patch_refused(whole, first + 42, 5, "not where");
  expect_patch_refused(whole, first + 42, 0xfffffff0, "outside");
  expect_patch_refused(whole, second + 42, 0, "overlaps");
  expect_patch_refused(whole, first + 20, 0x7fffffff, "cut short");
  expect_patch_refused(whole, first + 30, 0xffff, "");
}

}  // namespace
}  // namespace neap
