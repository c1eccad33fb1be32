meta:
  id: wirecodec_container
  title: wirecodec container 1.1
  file-extension: wc
  license: Apache-2.0
  endian: le
doc: |
  Prefix, table of contents, extension block and sections of a wirecodec container. SPEC.md is the standard; this
  description is informative and makes few of its checks. It reads the first container of a file.
doc-ref: SPEC.md section 2
seq:
  - id: prefix
    type: prefix
  - id: entries
    type: entry
    repeat: expr
    repeat-expr: prefix.n_entries
  - id: extension
    type: extension_block
    if: (prefix.flags & 1) == 1
  - id: payload
    type: payload(_index)
    repeat: expr
    repeat-expr: prefix.n_entries
types:
  prefix:
    seq:
      - id: magic
        contents: [0xf7, 0x57, 0x43, 0x1a]
      - id: major
        type: u1
      - id: minor
        type: u1
      - id: flags
        type: u2
      - id: n_entries
        type: u4
      - id: head_crc
        type: u4
      - id: total_len
        type: u8
  entry:
    seq:
      - id: key
        type: u4
      - id: crc
        type: u4
      - id: base
        type: u8
      - id: d
        type: u4
      - id: r
        type: u4
      - id: index_len
        type: u4
      - id: value_len
        type: u4
      - id: map_len
        type: u4
      - id: dtype
        type: u1
      - id: index
        type: u1
      - id: value
        type: u1
      - id: map
        type: u1
  extension_block:
    seq:
      - id: ext_len
        type: u4
      - id: n_records
        type: u4
      - id: records
        type: record
        repeat: expr
        repeat-expr: n_records
  record:
    doc: A type above 5 with other flags is unknown (SPEC.md section 2.3), so its body may have any form.
    seq:
      - id: type
        type: u2
        enum: record_type
      - id: flags
        type: u2
      - id: len
        type: u4
      - id: body
        size: len
        type:
          switch-on: (flags << 16) + type.to_i
          cases:
            0x10001: fused
            0x2: names
            0x3: shapes
            0x10004: transform
            0x10006: types
            0x7: meta
            0x10009: semantics
            0x1000a: joined
            0x1000b: base
      - id: padding
        size: (8 - len % 8) % 8
  fused:
    seq:
      - id: n_groups
        type: u4
      - id: reserved
        type: u4
      - id: groups
        type: group
        repeat: expr
        repeat-expr: n_groups
  group:
    seq:
      - id: entry_key
        type: u4
      - id: n_members
        type: u4
      - id: members
        type: member
        repeat: expr
        repeat-expr: n_members
  member:
    seq:
      - id: key
        type: u4
      - id: size
        type: u4
  names:
    seq:
      - id: count
        type: u4
      - id: lengths
        type: u2
        repeat: expr
        repeat-expr: count
      - id: names
        size: lengths[_index]
        repeat: expr
        repeat-expr: count
  shapes:
    seq:
      - id: rows
        type: shape
        repeat: eos
  shape:
    seq:
      - id: key
        type: u4
      - id: ndim
        type: u1
      - id: width
        type: u1
      - id: reserved
        type: u2
      - id: dimensions
        type:
          switch-on: width
          cases:
            1: u1
            2: u2
            4: u4
            8: u8
        repeat: expr
        repeat-expr: ndim
  transform:
    seq:
      - id: rows
        type: transform_row
        repeat: eos
  transform_row:
    seq:
      - id: key
        type: u4
      - id: reserved
        type: u4
      - id: n
        type: u8
  meta:
    seq:
      - id: count
        type: u4
      - id: rows
        type: meta_row
        repeat: expr
        repeat-expr: count
      - id: texts
        doc: The name and the value of each row.
        size: rows[_index >> 1].name_len * (1 - (_index & 1)) + rows[_index >> 1].value_len * (_index & 1)
        repeat: expr
        repeat-expr: 2 * count
  meta_row:
    seq:
      - id: key
        type: u4
      - id: name_len
        type: u4
      - id: value_len
        type: u4
  types:
    seq:
      - id: rows
        type: types_row
        repeat: eos
  types_row:
    seq:
      - id: key
        type: u4
      - id: type
        type: u2
        enum: element_type
      - id: reserved
        type: u2
  semantics:
    seq:
      - id: rows
        type: semantics_row
        repeat: eos
  semantics_row:
    seq:
      - id: key
        type: u4
      - id: meaning
        type: u4
        enum: meaning
  joined:
    seq:
      - id: rows
        type: joined_row
        repeat: eos
  joined_row:
    seq:
      - id: first
        type: u4
      - id: key
        type: u4
      - id: size
        type: u8
  base:
    seq:
      - id: form
        type: u1
      - id: touched
        type: u1
      - id: reserved
        type: u2
      - id: n_removed
        type: u4
      - id: unchanged
        type: u4
      - id: reserved_2
        type: u4
      - id: rest
        type: u8
      - id: digests_and_names
        size-eos: true
  payload:
    params:
      - id: i
        type: u4
    seq:
      - id: index_section
        size: _root.entries[i].index_len
      - id: index_padding
        size: (8 - _root.entries[i].index_len % 8) % 8
      - id: value_section
        size: _root.entries[i].value_len
      - id: value_padding
        size: (8 - _root.entries[i].value_len % 8) % 8
      - id: map_section
        size: _root.entries[i].map_len
      - id: map_padding
        size: (8 - _root.entries[i].map_len % 8) % 8
enums:
  record_type:
    1: fused
    2: names
    3: shapes
    4: transform
    5: tag
    6: types
    7: meta
    8: schema
    9: semantics
    10: joined
    11: base
  meaning:
    1: unchanged
  element_type:
    16: int8
    17: int16
    18: int32
    19: int64
    20: uint8
    21: uint16
    22: uint32
    23: uint64
    24: bool
    25: float8_e4m3fn
    26: float8_e5m2
    27: complex64
    28: complex128
    29: float8_e8m0fnu
    30: float4_e2m1fn_x2
