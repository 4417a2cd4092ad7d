import Glibc

/// The system's boot that CLOCK_BOOTTIME counts from.
enum Boot {
    /// A name for it, from 1 to 2^63 - 1: the kernel's, with the time namespace, in which that clock may have begun elsewhere. Where the
    /// kernel tells none, a random one, which holds for this process.
    static var current: Int64 {
        var checksum = Checksum()
        let id = SystemBoot.id()
        guard !id.isEmpty else { return Int64.random(in: 1...Int64.max) }
        checksum.add(id)
        var space = stat()
        if stat("/proc/self/ns/time", &space) == 0 { checksum.add(Int64(truncatingIfNeeded: space.st_ino)) }
        return max(checksum.stored & Int64.max, 1)
    }
}

/// This run of the system.
enum SystemBoot {
    /// Its name; "" where that is not known, which counts as another one.
    static func id() -> String {
        guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 36)
        guard fread(&bytes, 1, bytes.count, file) == bytes.count else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
