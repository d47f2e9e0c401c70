#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/style_rules.h"

namespace moetwin::style {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = source_root();

bool is_checked(const fs::path& path) {
  const std::string extension = path.extension().string();
  const std::string name = path.filename().string();
  return extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cmake" ||
         name == "CMakeLists.txt" || name == "quickstart" || name == "check" || name == "run" ||
         name == "setup";
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Files read_tree() {
  Files files;
  const auto add = [&](const fs::path& path) {
    if (is_checked(path)) files[path.lexically_relative(kRoot).generic_string()] = read(path);
  };
  for (const char* folder : {"common", "model", "cpu_sim", "cuda", "fuzz", "app", "tests", ".ci"}) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      if (entry.is_regular_file()) add(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(kRoot))
    if (entry.is_regular_file()) add(entry.path());
  return files;
}

std::string joined(const Findings& findings) {
  std::string text;
  for (const std::string& finding : findings) text += finding + "\n";
  return text;
}

/// A well-formed file, which each test of a rule spoils in one place.
std::string good(const std::string& body) { return "// Owns something.\n#pragma once\n" + body; }

}  // namespace

TEST_CASE("style: the source tree follows every rule") {
  const Files files = read_tree();
  REQUIRE(files.count("common/shape.h") == 1);
  REQUIRE(files.count("CMakeLists.txt") == 1);
  REQUIRE(files.count("tests/test_style.cpp") == 1);
  for (const auto rule : {include_direction, device_includes, text_form, file_heads, banned_words,
                          library_calls, belongs_to_target}) {
    const Findings findings = rule(files);
    CHECK_MESSAGE(findings.empty(), "\n", joined(findings));
  }
}

TEST_CASE("style: the top level holds only what the map of the tree lists") {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRoot))
    names.push_back(entry.path().filename().string());
  CHECK(joined(top_level(names)) == "");
  CHECK(top_level({"common", "build", "build-debug", ".git"}).empty());
  CHECK(top_level({"common", "notes.txt", "a.out"}).size() == 2);
}

TEST_CASE("style: a folder that includes a later one is found") {
  const Files around = {{"common/a.h", good("")},  {"model/a.h", good("")},
                        {"cpu_sim/a.h", good("")}, {"cuda/a.h", good("")},
                        {"fuzz/a.h", good("")},    {"app/a.h", good("")},
                        {"tests/a.h", good("")}};
  const std::vector<std::string> folders = {"common", "model", "cpu_sim", "cuda",
                                            "fuzz",   "app",   "tests"};
  for (size_t from = 0; from < folders.size(); ++from)
    for (size_t to = 0; to < folders.size(); ++to) {
      Files files = around;
      files[folders[from] + "/b.h"] = good("#include \"" + folders[to] + "/a.h\"\n");
      const bool backends = from + to == 5 && from != to && std::min(from, to) == 2;
      CAPTURE(folders[from]);
      CAPTURE(folders[to]);
      CHECK(include_direction(files).size() == (to > from || backends ? 1 : 0));
    }
}

TEST_CASE("style: an include that is not seen from the root is found") {
  CHECK(include_direction({{"model/a.h", good("")}, {"model/b.h", good("#include \"a.h\"\n")}})
            .size() == 1);
  CHECK(include_direction({{"model/b.h", good("  #  include \"../app/a.h\"  // why\n")}}).size() ==
        1);
  CHECK(
      include_direction({{"model/b.h", good("#include <vector>\n// #include \"a.h\"\n")}}).empty());
}

TEST_CASE("style: device code that reaches a host library through a header is found") {
  Files files = {{"cuda/k.cu", "// A kernel.\n#include \"common/a.h\"\n"},
                 {"common/a.h", good("#include \"common/b.h\"\n#include <cstdint>\n")},
                 {"common/b.h", good("#include \"common/a.h\"\n")},
                 {"cuda/host.cpp", "// Launch.\n#include <fmt/format.h>\n"}};
  CHECK(device_includes(files).empty());
  for (const char* library : {"fmt/format.h", "Eigen/Core", "boost/context/fiber.hpp",
                              "nlohmann/json.hpp", "hwy/highway.h", "xxhash.h", "omp.h"}) {
    files["common/b.h"] = good("#include <" + std::string(library) + ">\n");
    CAPTURE(library);
    // Found from the kernel and from both headers.
    CHECK(device_includes(files).size() == 3);
  }
}

TEST_CASE("style: long lines, tabs, trailing spaces, missing newlines and long files are found") {
  const std::string hundred(100, 'x');
  CHECK(text_form({{"model/a.h", good(hundred + "\n")}}).empty());
  CHECK(text_form({{"model/a.h", good(hundred + "x\n")}}).size() == 1);
  CHECK(text_form({{"model/a.h", good(hundred.substr(1) + "\xC2\xB5\n")}}).empty());
  CHECK(text_form({{"model/a.h", good("\tint a;\n")}}).size() == 1);
  CHECK(text_form({{"model/a.h", good("int a; \n")}}).size() == 1);
  CHECK(text_form({{"model/a.h", good("int a;")}}).size() == 1);
  std::string lines;
  for (int i = 0; i < 598; ++i) lines += "int a;\n";
  CHECK(text_form({{"model/a.h", good(lines)}}).empty());
  CHECK(text_form({{"model/a.h", good(lines + "\n")}}).size() == 1);
}

TEST_CASE("style: a file without a head, or with one that is too long, is found") {
  const std::string line = "// Owns something.\n";
  std::string head;
  for (int i = 0; i < 10; ++i) head += line;
  CHECK(file_heads({{"model/a.h", head + "#pragma once\n"}}).empty());
  CHECK(file_heads({{"model/a.h", head + line + "#pragma once\n"}}).size() == 1);
  CHECK(file_heads({{"model/a.h", "#pragma once\n"}}).size() == 1);
  CHECK(file_heads({{"model/a.h", line}}).size() == 1);
  CHECK(file_heads({{"cuda/a.cu", "int a;\n"}}).size() == 1);
  CHECK(file_heads({{"model/a.cpp", "int a;\n"}}).size() == 1);
  CHECK(file_heads({{"model/a.cpp", "int a;\n"}, {"model/a.h", good("")}}).empty());
  CHECK(file_heads({{"tests/test_a.cpp", "int a;\n"}}).empty());
  CHECK(file_heads({{"model/a.h", head + "//\n//   a table\n#pragma once\n"}}).empty());
  CHECK(file_heads({{"check", "#!/bin/sh\n" + std::string("# a\n") + "true\n"}}).empty());
}

TEST_CASE("style: marks of unfinished work, banners and private paths are found") {
  const std::string mark = std::string("TO") + "DO";
  const std::string place = std::string("/ro") + "ot/";
  const std::string banner = "// " + std::string(10, '=');
  for (const std::string& bad : {"// " + mark + ": later", "\"" + place + "a\"", banner,
                                 "  " + banner + " roles", "#" + std::string(40, '-')}) {
    CAPTURE(bad);
    CHECK(banned_words({{"model/a.h", good(bad + "\n")}}).size() == 1);
  }
  CHECK(banned_words({{"model/a.h", good("// " + mark + "S are many\n")}}).empty());
  CHECK(banned_words({{"model/a.h", good(std::string("int root = a/wo") + "rk/2;\n")}}).empty());
}

TEST_CASE("style: library code that prints or ends the program is found") {
  for (const char* bad : {"std::exit(1);", "abort ();", "std::printf(\"a\");", "std::cerr << 1;",
                          "for (auto a : b | std::views::take(1)) {}"}) {
    CAPTURE(bad);
    for (const char* folder : {"common", "model", "cpu_sim", "cuda", "fuzz"}) {
      CAPTURE(folder);
      CHECK(library_calls({{folder + std::string("/a.h"), good(bad + std::string("\n"))}}).size() ==
            1);
    }
  }
  CHECK(library_calls({{"app/a.cpp", "std::printf(\"a\");\n"}}).empty());
  CHECK(library_calls({{"model/a.h", good("std::snprintf(a, 1, b); on_exit_of(c);\n")}}).empty());
}

TEST_CASE("style: a source that no target collects is found") {
  CHECK(belongs_to_target({{"model/a.cpp", ""}, {"cuda/a.cu", ""}, {"app/yardstick/a.cpp", ""}})
            .empty());
  CHECK(belongs_to_target({{"model/deep/a.cpp", ""}}).size() == 1);
  CHECK(belongs_to_target({{"common/a.cpp", ""}}).size() == 1);
  CHECK(belongs_to_target({{"model/a.cu", ""}}).size() == 1);
}

}  // namespace moetwin::style
