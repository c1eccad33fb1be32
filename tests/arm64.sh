#!/bin/sh
# Python for ARM64 in the folder $1, with what wirecodec needs, for qemu-aarch64-static. It needs Debian's apt, and
# the pip of $2, a Python of the same version.
set -eu
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial" "$1/debs" "$1/wheels" "$1/site"
folder=$(realpath "$1")
: > "$folder/apt/status"
apt() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
        -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" "$@"
}
apt update
version=$("$2" -c "import sys; print('%d.%d' % sys.version_info[:2])")
(cd "$folder/debs" && apt download libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 \
    libsqlite3-0 libuuid1 libcrypt1 "libpython$version-minimal" "libpython$version-stdlib" "python$version-minimal")
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder/root"; done
freeze=$("$2" -m pip freeze | grep -E "^(numpy|numba|llvmlite|zstandard|ml_dtypes|rich)==")
for platform in manylinux2014 manylinux_2_27 manylinux_2_28; do platforms="${platforms:-} --platform ${platform}_aarch64"; done
"$2" -m pip download -q $platforms --python-version "$version" --only-binary=:all: -d "$folder/wheels" $freeze
for wheel in "$folder"/wheels/*.whl; do "$2" -m zipfile -e "$wheel" "$folder/site"; done
rm -rf "$folder/apt" "$folder/debs" "$folder/wheels"
