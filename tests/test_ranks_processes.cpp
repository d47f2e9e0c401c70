#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "cuda/ranks/child_processes.h"
#include "cuda/ranks/handle_exchange.h"

namespace moetwin {
namespace {

ChildCommand shell(const std::string& script, std::vector<std::string> environment = {}) {
  return {"/bin/sh", {"sh", "-c", script}, std::move(environment)};
}

}  // namespace

TEST_CASE("ranks: a started process has the environment of its rank and its end is told") {
  ChildProcesses children;
  children.start(1, shell("test \"$RANK\" = 1 && test \"$MOETWIN_GIVEN\" = yes",
                          {"RANK=1", "MOETWIN_GIVEN=yes"}));
  children.start(2, shell("exit 7"));
  children.start(3, shell("kill -9 $$"));
  REQUIRE(children.wait_all(seconds_from_now(10)));
  CHECK(children.ended(1) == "the process of rank 1 ended with status 0");
  CHECK(children.ended(2) == "the process of rank 2 ended with status 7");
  CHECK(children.ended(3) == "the process of rank 3 was ended by signal 9");
  CHECK(children.ended(4).empty());
}

TEST_CASE("ranks: started processes end with their owner, also those that do not want to") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const FileHandle reader(ends[0]);
  {
    FileHandle writer(ends[1]);
    const std::string keep = "trap '' TERM; while :; do sleep 1; done";
    ChildProcesses children;
    children.start(1, shell("exec sleep 600"));
    children.start(2, shell(keep));
    CHECK(children.first_ended().empty());
    CHECK(!children.wait_all(seconds_from_now(0.1)));
  }
  // Their ends of the pipe are closed: nobody is left to write.
  wait_for(reader.get(), false, seconds_from_now(10));
  char byte = 0;
  CHECK(::read(reader.get(), &byte, 1) == 0);
}

TEST_CASE("ranks: a program that is not there is refused, not waited for") {
  ChildProcesses children;
  CHECK_THROWS_AS(children.start(1, {"/no/such/program", {"program"}, {}}), InputError);
}

TEST_CASE("ranks: this program can be started again with the same arguments") {
  const ChildCommand command = this_program();
  REQUIRE(!command.arguments.empty());
  CHECK(command.arguments.front().find("moetwin_tests") != std::string::npos);
}

TEST_CASE("ranks: every rank gets an open file of every other") {
  constexpr uint32_t kRanks = 3;
  const std::string name = "test-" + std::to_string(::getpid());
  std::vector<HandleExchange> exchanges;
  std::vector<FileHandle> readers;
  std::vector<FileHandle> writers;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    exchanges.emplace_back(name, rank, kRanks);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    readers.emplace_back(ends[0]);
    writers.emplace_back(ends[1]);
  }
  std::vector<std::thread> ranks;
  std::vector<uint32_t> written(kRanks, 0);
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto handles = exchanges[rank].exchange(writers[rank].get(), seconds_from_now(10));
      const char mark = static_cast<char>('0' + rank);
      for (const FileHandle& handle : handles)
        written[rank] += handle && ::write(handle.get(), &mark, 1) == 1;
    });
  for (std::thread& rank : ranks) rank.join();
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank);
    CHECK(written[rank] == kRanks - 1);
    char marks[kRanks] = {};
    REQUIRE(::read(readers[rank].get(), marks, kRanks) == kRanks - 1);
    std::string seen(marks, kRanks - 1);
    std::sort(seen.begin(), seen.end());
    std::string others;
    for (uint32_t other = 0; other < kRanks; ++other)
      if (other != rank) others += static_cast<char>('0' + other);
    CHECK(seen == others);
  }
}

TEST_CASE("ranks: a rank that never comes for the files ends the exchange in time") {
  const std::string name = "late-" + std::to_string(::getpid());
  HandleExchange here(name, 0, 2);
  HandleExchange silent(name, 1, 2);
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(here.exchange(0, seconds_from_now(0.2)), ChannelError);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

}  // namespace moetwin
