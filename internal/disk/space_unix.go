//go:build unix

package disk

import "syscall"

func space(path string) (Space, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return Space{}, err
	}
	block := int64(fs.Bsize)
	return Space{Free: int64(fs.Bavail) * block, Size: int64(fs.Blocks) * block}, nil
}

// private reports whether this user owns a folder that others may not use.
func private(folder string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(folder, &s) == nil && int(s.Uid) == syscall.Geteuid() && s.Mode&0o077 == 0
}
