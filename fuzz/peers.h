// The processes of one campaign, as the campaign sees them: how many there are, and how each learns
// what all have found. How they come about (mpirun) is the command line's business.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetwin {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t count() const = 0;
  /// Gives everybody what everybody gave, by rank. All must call it equally often.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

/// One process alone.
class SinglePeer : public Peers {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t count() const override { return 1; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
};

}  // namespace moetwin
