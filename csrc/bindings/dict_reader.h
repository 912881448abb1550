// Reads a Python dict by keys.
#ifndef NPU_BRIDGE_CSRC_BINDINGS_DICT_READER_H_
#define NPU_BRIDGE_CSRC_BINDINGS_DICT_READER_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <set>
#include <string>

namespace npu_bridge {

// Knows which keys were asked for. With the GIL; throws Python's TypeError and KeyError.
class DictReader {
 public:
  // `what` names the dict in errors.
  DictReader(const char* what, const pybind11::dict& values) : what_(what), values_(values) {}

  // Leaves *value where the key is absent or None.
  template <typename T>
  void Read(const char* key, T* value) {
    known_.insert(key);
    if (!values_.contains(key) || values_[key].is_none()) return;
    try {
      *value = values_[key].cast<T>();
    } catch (const pybind11::cast_error&) {
      throw pybind11::type_error(what_ + " has '" + key + "': " + Repr(values_[key]) +
                                 ", which is of another type than expected.");
    }
  }

  template <typename T>
  void Require(const char* key, T* value) {
    if (!values_.contains(key)) throw pybind11::key_error(what_ + " lacks '" + key + "'.");
    Read(key, value);
  }

  void RefuseUnknown() const {
    for (const auto& item : values_) {
      const std::string key = pybind11::str(item.first);
      if (known_.count(key) == 0) {
        throw pybind11::key_error(what_ + " has an unknown key '" + key + "'.");
      }
    }
  }

 private:
  static std::string Repr(const pybind11::handle& value) {
    return pybind11::str(pybind11::repr(value));
  }

  const std::string what_;
  const pybind11::dict& values_;
  std::set<std::string> known_;
};

}  // namespace npu_bridge

#endif  // NPU_BRIDGE_CSRC_BINDINGS_DICT_READER_H_
