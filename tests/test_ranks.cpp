#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cuda/ranks/message.h"
#include "cuda/ranks/rank_place.h"
#include "cuda/ranks/rendezvous.h"

namespace moetwin {
namespace {

/// The environment of a rank for as long as it lives; everything that could name one is unset
/// before and after.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    clear();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { clear(); }

 private:
  static void clear() {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
          "TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"})
      ::unsetenv(name);
  }
};

std::string refusal() {
  try {
    rank_place_from_environment();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

RankPlace place_of(uint32_t rank, uint32_t ranks, uint16_t port) {
  return {rank, ranks, rank, "127.0.0.1", port};
}

bool starts(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("ranks: the environment of torchrun, of Open MPI and of MPICH says which rank this is") {
  {
    const Environment none({});
    CHECK(!rank_place_from_environment());
  }
  {
    const Environment torchrun({{"RANK", "3"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},
                                {"MASTER_ADDR", "localhost"},
                                {"MASTER_PORT", "1234"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    const RankPlace place = *rank_place_from_environment();
    CHECK(place.rank == 3);
    CHECK(place.ranks == 4);
    CHECK(place.local_rank == 1);
    CHECK(place.address == "localhost");
    CHECK(place.port == 1235);  // the port itself is torchrun's
  }
  for (const auto& names : {std::vector{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                            std::vector{"PMI_RANK", "PMI_SIZE"}}) {
    const Environment mpi({{names[0], "1"}, {names[1], "2"}});
    const RankPlace place = *rank_place_from_environment();
    CHECK(place.rank == 1);
    CHECK(place.ranks == 2);
    CHECK(place.local_rank == 1);
    CHECK(place.address == "127.0.0.1");
    CHECK(place.port == 29500);
  }
}

TEST_CASE("ranks: what another process is given as environment, it reads back") {
  RankPlace place = place_of(2, 5, 4321);
  place.local_rank = 0;
  std::map<std::string, std::string> variables;
  for (const std::string& text : environment_of(place))
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  const Environment environment(variables);
  const RankPlace read = *rank_place_from_environment();
  CHECK(read.rank == 2);
  CHECK(read.ranks == 5);
  CHECK(read.local_rank == 0);
  CHECK(read.address == "127.0.0.1");
  CHECK(read.port == 4321);
}

TEST_CASE("ranks: a wrong variable is refused by name") {
  using Variables = std::map<std::string, std::string>;
  const std::vector<std::pair<Variables, std::string>> wrong = {
      {{{"RANK", "0"}}, "WORLD_SIZE: is not set"},
      {{{"WORLD_SIZE", "2"}}, "RANK: is not set"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK: '2' is not an integer from 0 to 1"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK: '-1'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "17"}}, "WORLD_SIZE: '17' is not an integer from 1 to 16"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "two"}}, "WORLD_SIZE: 'two'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT: '70000'"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}}, "LOCAL_RANK: 'x'"},
  };
  for (const auto& [variables, named] : wrong) {
    const Environment environment(variables);
    const std::string text = named;
    CAPTURE(text);
    CHECK(starts(refusal(), text));
  }
}

TEST_CASE("ranks: a message gives back what was written, and refuses to be read past its end") {
  MessageWriter out;
  out.value(uint32_t{7}).text("seven").values(std::vector<uint64_t>{1, 2}).value(0.5);
  MessageReader read(out.bytes());
  CHECK(read.value<uint32_t>() == 7);
  CHECK(read.text() == "seven");
  CHECK(read.values<uint64_t>() == std::vector<uint64_t>{1, 2});
  CHECK(read.value<double>() == 0.5);
  CHECK(read.at_end());
  CHECK_THROWS_AS(read.value<uint8_t>(), MessageError);
  MessageWriter lying;
  lying.value(UINT64_MAX);
  CHECK_THROWS_AS(MessageReader(lying.bytes()).text(), MessageError);
  CHECK_THROWS_AS(MessageReader(lying.bytes()).values<uint64_t>(), MessageError);
}

TEST_CASE("ranks: all ranks meet, hear rank 0 and are heard, large messages too") {
  constexpr uint32_t kRanks = 4;
  RankHub hub(place_of(0, kRanks, 0));
  const std::string large(3 << 20, 'x');
  std::vector<std::thread> others;
  std::vector<std::string> heard(kRanks);
  for (uint32_t rank = 1; rank < kRanks; ++rank)
    others.emplace_back([&, rank] {
      RankPeer peer(place_of(rank, kRanks, hub.port()), seconds_from_now(10));
      heard[rank] = peer.receive(seconds_from_now(10));
      peer.send(large + std::to_string(rank), seconds_from_now(10));
    });
  hub.accept_all(seconds_from_now(10), {});
  hub.send("hello", seconds_from_now(10));
  const std::vector<RankAnswer> answers = hub.receive(seconds_from_now(10));
  for (std::thread& other : others) other.join();
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    CHECK(heard[rank] == "hello");
    CHECK(answers[rank].came);
    CHECK(answers[rank].message == large + std::to_string(rank));
  }
}

TEST_CASE("ranks: ranks that do not come are named when the time is over") {
  RankHub hub(place_of(0, 4, 0));
  std::thread other([&] { RankPeer(place_of(2, 4, hub.port()), seconds_from_now(10)); });
  std::string text;
  const double seconds = seconds_of([&] {
    try {
      hub.accept_all(seconds_from_now(0.4), {});
    } catch (const RendezvousError& error) {
      text = error.what();
    }
  });
  other.join();
  CHECK(starts(text, "RANK: 1, 3 of 4 did not come to 127.0.0.1:"));
  CHECK(seconds < 5);
}

TEST_CASE("ranks: trouble of a process that was started ends the wait at once") {
  RankHub hub(place_of(0, 2, 0));
  const auto wait = [&] { hub.accept_all(seconds_from_now(60), [] { return "it died"; }); };
  CHECK_THROWS_WITH_AS(wait(), "RANK: 1 of 2 did not come: it died", RendezvousError);
}

TEST_CASE("ranks: a dead rank and a late rank are told apart, and neither is waited for longer") {
  RankHub hub(place_of(0, 3, 0));
  std::thread others([&] {
    const Deadline deadline = seconds_from_now(10);
    { RankPeer dead(place_of(1, 3, hub.port()), deadline); }
    RankPeer late(place_of(2, 3, hub.port()), deadline);
    late.receive(deadline);
    // Says nothing until rank 0 has given it up.
    CHECK_THROWS_AS(late.receive(deadline), ChannelError);
  });
  hub.accept_all(seconds_from_now(10), {});
  hub.send("go", seconds_from_now(1));
  std::vector<RankAnswer> answers;
  const double seconds = seconds_of([&] { answers = hub.receive(seconds_from_now(0.3)); });
  others.join();
  CHECK(!answers[1].came);
  CHECK(answers[1].why == "its process has ended");
  CHECK(!answers[2].came);
  CHECK(answers[2].why == "it did not answer in time");
  CHECK(seconds < 5);
  // Both stay gone.
  CHECK(!hub.receive(seconds_from_now(1))[2].came);
}

TEST_CASE("ranks: a rank of another world, or one that is there already, is refused on both ends") {
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    RankHub hub(place_of(0, 3, 0));
    std::string told;
    std::thread others([&] {
      try {
        RankPeer first(place_of(1, 3, hub.port()), seconds_from_now(10));
        RankPeer second(place_of(1, twice ? 3 : 4, hub.port()), seconds_from_now(10));
      } catch (const RendezvousError& error) {
        told = error.what();
      }
    });
    std::string text;
    try {
      hub.accept_all(seconds_from_now(10), {});
    } catch (const RendezvousError& error) {
      text = error.what();
    }
    others.join();
    CHECK(text == told);
    CHECK(starts(text, twice ? "RANK: 1 is there twice" : "WORLD_SIZE: 4 on rank 1 is not"));
  }
}

TEST_CASE("ranks: without rank 0 the others end in time and say where they looked") {
  uint16_t port = 0;
  {
    const RankHub gone(place_of(0, 2, 0));
    port = gone.port();
  }
  std::string text;
  const double seconds = seconds_of([&] {
    try {
      RankPeer(place_of(1, 2, port), seconds_from_now(0.3));
    } catch (const RendezvousError& error) {
      text = error.what();
    }
  });
  CHECK(starts(text, "MASTER_ADDR: rank 1 did not reach rank 0 at 127.0.0.1:"));
  CHECK(seconds < 5);
}

}  // namespace moetwin
