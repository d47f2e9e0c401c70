#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/check.h"
#include "model/output_file.h"
#include "tests/command_line_program.h"

namespace moetwin {
namespace {

namespace fs = std::filesystem;

size_t files_in(const ProgramDirectory& dir) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(dir.path("."))) count += entry.exists() ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("output_file: an unfinished file leaves the earlier one and nothing else") {
  const ProgramDirectory dir;
  dir.write("a", "old");
  {
    OutputFile file(dir.path("a"));
    file.write("new");
  }
  CHECK(dir.read("a") == "old");
  CHECK(files_in(dir) == 1);
  write_file(dir.path("a"), "new");
  CHECK(dir.read("a") == "new");
  CHECK(files_in(dir) == 1);
}

TEST_CASE("output_file: a link stays a link, and permissions stay") {
  const ProgramDirectory dir;
  dir.write("real", "old");
  REQUIRE(::chmod(dir.path("real").c_str(), 0640) == 0);
  fs::create_symlink("real", dir.path("link"));
  write_file(dir.path("link"), "new");
  CHECK(fs::is_symlink(dir.path("link")));
  CHECK(dir.read("real") == "new");
  CHECK(fs::status(dir.path("real")).permissions() == fs::perms(0640));
}

TEST_CASE("output_file: devices and pipes are written, never replaced") {
  const ProgramDirectory dir;
  write_file("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_AS(write_file("/dev/full", std::string(100000, 'x')), InputError);
  CHECK(fs::is_character_file("/dev/full"));

  const std::string pipe = dir.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(write_file(pipe, "nobody reads"), InputError);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  write_file(pipe, "read");
  char got[8] = {};
  CHECK(::read(reader, got, sizeof got) == 4);
  CHECK(std::string(got) == "read");
  ::close(reader);
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("output_file: a pipe without a writer is an empty case, a zero byte is no end of one") {
  const ProgramDirectory dir;
  REQUIRE(::mkfifo(dir.path("pipe").c_str(), 0600) == 0);
  for (const char* command : {"run pipe", "golden check pipe", "golden vectors pipe"}) {
    CAPTURE(command);
    const Ran ran = dir.run(command);
    CHECK(ran.status == 2);
    CHECK(ran.one_line_of_error());
  }
  const std::string shape =
      R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,)"
      R"("max_tokens_per_rank":1}})";
  dir.write("zero.json", shape + std::string(1, '\0') + "more");
  const Ran ran = dir.run("run zero.json");
  CHECK(ran.status == 2);
  CHECK(ran.err.find("byte " + std::to_string(shape.size()) + " is zero") != std::string::npos);
}

TEST_CASE("output_file: golden record refuses to replace a case, golden check a file of none") {
  const ProgramDirectory dir;
  REQUIRE(dir.run("case tiny --out t.json").status == 0);
  const std::string before = dir.read("t.json");
  const Ran ran = dir.run("golden record t.json t.json --backend naive");
  CHECK(ran.status == 2);
  CHECK(ran.one_line_of_error());
  CHECK(dir.read("t.json") == before);
  dir.write("none.json",
            R"({"format":1,"machine":{"cpu":"x","date":"2026-01-01","version":"1"},"cases":[]})");
  const Ran none = dir.run("golden check none.json");
  CHECK(none.status == 2);
  CHECK(none.err.find("holds no case") != std::string::npos);
}

}  // namespace moetwin
