package disk

import "golang.org/x/sys/windows"

func space(path string) (Space, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Space{}, err
	}
	var free, size uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &size, nil); err != nil {
		return Space{}, err
	}
	return Space{Free: int64(free), Size: int64(size)}, nil
}

func private(string) bool { return true } // each user has temporary folders of their own
