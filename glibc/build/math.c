/* Functions of the mathematical library that have newer versions than the floor, by their old names: those of glibc 2.2.5, which all later
 * ones still have. (The new ones set no `errno` in another way, which Rust does not read.) */
#define OLD(type, name)                                                 \
    __asm__(".symver old_" #name "," #name "@GLIBC_2.2.5");             \
    type old_##name(type);                                              \
    type name(type);                                                    \
    type name(type value) { return old_##name(value); }
#define OLD_OF_TWO(type, name)                                          \
    __asm__(".symver old_" #name "," #name "@GLIBC_2.2.5");             \
    type old_##name(type, type);                                        \
    type name(type, type);                                              \
    type name(type one, type other) { return old_##name(one, other); }

OLD(double, exp)
OLD(double, exp2)
OLD(double, log)
OLD(double, log2)
OLD(float, expf)
OLD(float, exp2f)
OLD(float, logf)
OLD(float, log2f)
OLD_OF_TWO(double, pow)
OLD_OF_TWO(float, powf)
