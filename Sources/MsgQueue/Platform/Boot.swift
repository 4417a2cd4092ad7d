import Glibc

/// Identifies the boot from which CLOCK_BOOTTIME counts.
enum Boot {
    /// A hash, 1 to 2^63 - 1, of the kernel's boot id and of the time namespace, which may shift the clock. If the boot id cannot be read,
    /// a random number, which does not equal that of any other boot.
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

/// The current boot of the system.
enum SystemBoot {
    /// Returns the kernel's boot id; "" if it cannot be read, which counts as a different boot.
    static func id() -> String {
        guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 36)
        guard fread(&bytes, 1, bytes.count, file) == bytes.count else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
