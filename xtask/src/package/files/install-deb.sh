# install-deb.sh FOLDER: installs FOLDER/runwright.deb into a throwaway copy of this system, as
# root, and runs the program as the user of the service. Exit code 77: not possible here.
set -eu
folder=$1
if [ "$(id -u)" != 0 ]; then
    echo "it needs root"
    exit 77
fi
if [ "${2-}" != unshared ]; then
    unshare --mount true || exit 77
    exec unshare --mount --propagation private sh "$0" "$folder" unshared
fi
mkdir "$folder/changes" "$folder/work" "$folder/root"
mount -t overlay runwright-package \
    -o "lowerdir=/,upperdir=$folder/changes,workdir=$folder/work" "$folder/root" || exit 77
mount --rbind /dev "$folder/root/dev"
mount --rbind /proc "$folder/root/proc"
chmod 1777 "$folder/root/tmp"
cp "$folder/runwright.deb" "$folder/root/tmp/runwright.deb"
exec chroot "$folder/root" sh -euc '
    cd /
    dpkg --install /tmp/runwright.deb
    as_service() { setpriv --reuid runwright --regid runwright --clear-groups --no-new-privs "$@"; }
    mkdir -p /var/lib/runwright
    chown runwright: /var/lib/runwright
    export HOME=/var/lib/runwright
    as_service runwright --version
    as_service runwright demo
    if command -v systemd-analyze; then systemd-analyze verify runwright.service; fi
    dpkg --purge runwright
    if command -v runwright; then echo "dpkg did not remove the program"; exit 1; fi
'
