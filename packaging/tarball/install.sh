#!/bin/sh
# Installs rsys below a folder, and takes it away again. Needs no more than a shell and coreutils.
#
#     ./install.sh [--prefix DIR] [--old-names]    DIR is /usr/local by default
#     ./install.sh --uninstall [--prefix DIR]
#
# The programs run from where this archive was unpacked, too, without being installed.
set -eu
export LC_ALL=C

usage() {
    echo "usage: install.sh [--uninstall] [--prefix DIR] [--old-names]" >&2
    exit 2
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
list=share/rsys/installed-files.txt
# The copy that is installed knows its prefix.
case $here in
    */share/rsys) prefix=${here%/share/rsys} is_installed=yes ;;
    *) prefix=/usr/local is_installed=no ;;
esac
uninstall=no
old_names=no
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -gt 1 ] || usage; prefix=$2; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        --old-names) old_names=yes ;;
        *) usage ;;
    esac
    shift
done

# Removes the files of a list, and those of its folders that are empty then, the deepest first.
remove() {
    while read -r line; do
        case $line in
            /* | .. | ../* | */../* | */..) fail "$1: $line is not below $prefix" ;;
            */) ;;
            *) rm -f "$prefix/$line" ;;
        esac
    done <"$1"
    sort -r "$1" | while read -r line; do
        case $line in
            */) rmdir "$prefix/$line" 2>/dev/null || : ;;
        esac
    done
}

if [ $uninstall = yes ]; then
    prefix=$(cd "$prefix" && pwd) || fail "$prefix is not there"
    [ -f "$prefix/$list" ] || fail "nothing is installed below $prefix (there is no $list)"
    # The list goes with the rest.
    copy=$(mktemp)
    trap 'rm -f "$copy"' EXIT
    cp "$prefix/$list" "$copy"
    remove "$copy"
    echo "removed rsys from $prefix"
    exit
fi

[ $is_installed = no ] || fail "this copy is for --uninstall; install from the unpacked archive"
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
[ "$prefix" != "$here" ] || fail "$prefix is the unpacked archive itself: its programs run as they are"
case $prefix in
    *[\ :\$]*) fail "$prefix: programs load the agent by a path (LD_PRELOAD) that must be without blanks, ':' and '\$'" ;;
esac

# The folders that an earlier installation made are ours still; what it had more goes.
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
: >"$draft/before"
[ ! -f "$prefix/$list" ] || cp "$prefix/$list" "$draft/before"
cp "$here/$list" "$draft/wanted"
if [ $old_names = yes ]; then
    cat >>"$draft/wanted" <<'NAMES'
bin/rocprof-sys-sample
bin/rocprof-sys-avail
bin/omnitrace-sample
bin/omnitrace-avail
NAMES
fi
while read -r line; do
    case $line in
        */) [ -d "$prefix/$line" ] || echo "$line" ;;
        *) echo "$line" ;;
    esac
done <"$draft/wanted" >"$draft/now"
while read -r line; do
    case $line in
        */) echo "$line" ;;
    esac
done <"$draft/before" >>"$draft/now"
sort -u "$draft/now" >"$draft/list"
grep -v '/$' "$draft/before" | grep -vxFf "$draft/list" | while read -r line; do
    rm -f "$prefix/$line"
done

# The list first, so that an installation that fails half-way can be taken away too.
mkdir -p "$prefix/share/rsys"
cp "$draft/list" "$prefix/$list.new"
mv -f "$prefix/$list.new" "$prefix/$list"
while read -r line; do
    case $line in
        */ | "$list") continue ;;
    esac
    mkdir -p "$prefix/${line%/*}"
    # Beside its place first: programs that run the old file keep it.
    case $line in
        bin/*-sys-sample | bin/omnitrace-sample) ln -sf rsys-sample "$prefix/$line" ;;
        bin/*-sys-avail | bin/omnitrace-avail) ln -sf rsys-avail "$prefix/$line" ;;
        *)
            cp -p "$here/$line" "$prefix/$line.new"
            mv -f "$prefix/$line.new" "$prefix/$line"
            ;;
    esac
done <"$draft/list"
echo "installed rsys below $prefix; 'sh $prefix/share/rsys/install.sh --uninstall' takes it away"
