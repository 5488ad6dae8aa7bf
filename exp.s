	.file	"<string>"
	.section	.rodata.cst4,"aM",@progbits,4
	.p2align	2, 0x0
.LCPI0_0:
	.long	0xc2c80000
.LCPI0_1:
	.long	0x4b400000
.LCPI0_2:
	.long	0x392209c5
.LCPI0_3:
	.long	0x3aaf8448
.LCPI0_4:
	.long	0x3c1d952a
.LCPI0_5:
	.long	0x3d6357b6
.LCPI0_6:
	.long	0x3e75fdf0
.LCPI0_7:
	.long	0x3f317218
.LCPI0_8:
	.long	1065353216
	.section	.ltext,"axl",@progbits
	.globl	_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.p2align	4
	.type	_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx,@function
_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx:
	.cfi_startproc
	pushq	%r15
	.cfi_def_cfa_offset 16
	pushq	%r14
	.cfi_def_cfa_offset 24
	pushq	%r13
	.cfi_def_cfa_offset 32
	pushq	%r12
	.cfi_def_cfa_offset 40
	pushq	%rbx
	.cfi_def_cfa_offset 48
	.cfi_offset %rbx, -48
	.cfi_offset %r12, -40
	.cfi_offset %r13, -32
	.cfi_offset %r14, -24
	.cfi_offset %r15, -16
	movq	72(%rsp), %rcx
	movq	56(%rsp), %rax
	testq	%rcx, %rcx
	setle	%dl
	testq	%rax, %rax
	setle	%sil
	orb	%dl, %sil
	je	.LBB0_1
.LBB0_14:
	movq	$0, (%rdi)
	xorl	%eax, %eax
	popq	%rbx
	.cfi_def_cfa_offset 40
	popq	%r12
	.cfi_def_cfa_offset 32
	popq	%r13
	.cfi_def_cfa_offset 24
	popq	%r14
	.cfi_def_cfa_offset 16
	popq	%r15
	.cfi_def_cfa_offset 8
	retq
.LBB0_1:
	.cfi_def_cfa_offset 48
	movabsq	$.LCPI0_0, %r9
	movabsq	$.LCPI0_1, %r10
	movabsq	$.LCPI0_2, %r11
	movabsq	$.LCPI0_3, %rbx
	movabsq	$.LCPI0_4, %r14
	movabsq	$.LCPI0_5, %r15
	movabsq	$.LCPI0_6, %r12
	movabsq	$.LCPI0_7, %r13
	movq	48(%rsp), %rdx
	movabsq	$9223372036854775792, %rsi
	movq	%rax, %r8
	vmovss	(%r9), %xmm0
	vbroadcastss	(%r9), %xmm8
	vbroadcastss	(%r9), %zmm16
	movabsq	$.LCPI0_8, %r9
	vbroadcastss	(%r10), %xmm9
	vbroadcastss	(%r11), %xmm10
	vbroadcastss	(%rbx), %xmm11
	vbroadcastss	(%r14), %xmm12
	vbroadcastss	(%r15), %xmm13
	vbroadcastss	(%r12), %xmm14
	vbroadcastss	(%r13), %xmm15
	vbroadcastss	(%r10), %zmm17
	vbroadcastss	(%r11), %zmm18
	vbroadcastss	(%rbx), %zmm19
	vbroadcastss	(%r14), %zmm20
	vbroadcastss	(%r15), %zmm21
	vbroadcastss	(%r12), %zmm22
	vbroadcastss	(%r13), %zmm24
	vmovss	(%r10), %xmm1
	vmovss	(%r11), %xmm2
	vmovss	(%rbx), %xmm3
	vmovss	(%r14), %xmm4
	vmovss	(%r15), %xmm5
	vmovss	(%r12), %xmm6
	vmovss	(%r13), %xmm7
	andq	%rsi, %r8
	orq	$12, %rsi
	vpbroadcastd	(%r9), %xmm23
	vpbroadcastd	(%r9), %zmm25
	andq	%rax, %rsi
	jmp	.LBB0_2
	.p2align	4
.LBB0_13:
	subq	$1, %rcx
	jbe	.LBB0_14
.LBB0_2:
	cmpq	$4, %rax
	jae	.LBB0_4
	xorl	%r9d, %r9d
	jmp	.LBB0_12
	.p2align	4
.LBB0_4:
	cmpq	$16, %rax
	jae	.LBB0_6
	xorl	%r10d, %r10d
	jmp	.LBB0_10
	.p2align	4
.LBB0_6:
	xorl	%r9d, %r9d
	.p2align	4
.LBB0_7:
	vmaxps	(%rdx,%r9,4), %zmm16, %zmm26
	vaddps	%zmm17, %zmm26, %zmm27
	vsubps	%zmm27, %zmm17, %zmm28
	vpslld	$23, %zmm27, %zmm27
	vpaddd	%zmm25, %zmm27, %zmm27
	vaddps	%zmm28, %zmm26, %zmm26
	vmovaps	%zmm18, %zmm28
	vfmadd213ps	%zmm19, %zmm26, %zmm28
	vfmadd213ps	%zmm20, %zmm26, %zmm28
	vfmadd213ps	%zmm21, %zmm26, %zmm28
	vfmadd213ps	%zmm22, %zmm26, %zmm28
	vfmadd213ps	%zmm24, %zmm26, %zmm28
	vmulps	%zmm28, %zmm26, %zmm26
	vfmadd213ps	%zmm27, %zmm26, %zmm27
	vmovups	%zmm27, (%rdx,%r9,4)
	addq	$16, %r9
	cmpq	%r9, %r8
	jne	.LBB0_7
	cmpq	%r8, %rax
	je	.LBB0_13
	movq	%r8, %r10
	movq	%r8, %r9
	testb	$12, %al
	je	.LBB0_12
	.p2align	4
.LBB0_10:
	vmaxps	(%rdx,%r10,4), %xmm8, %xmm26
	vaddps	%xmm9, %xmm26, %xmm27
	vsubps	%xmm27, %xmm9, %xmm28
	vpslld	$23, %xmm27, %xmm27
	vpaddd	%xmm23, %xmm27, %xmm27
	vaddps	%xmm28, %xmm26, %xmm26
	vmovaps	%xmm10, %xmm28
	vfmadd213ps	%xmm11, %xmm26, %xmm28
	vfmadd213ps	%xmm12, %xmm26, %xmm28
	vfmadd213ps	%xmm13, %xmm26, %xmm28
	vfmadd213ps	%xmm14, %xmm26, %xmm28
	vfmadd213ps	%xmm15, %xmm26, %xmm28
	vmulps	%xmm28, %xmm26, %xmm26
	vfmadd213ps	%xmm27, %xmm26, %xmm27
	vmovups	%xmm27, (%rdx,%r10,4)
	addq	$4, %r10
	cmpq	%r10, %rsi
	jne	.LBB0_10
	movq	%rsi, %r9
	cmpq	%rsi, %rax
	je	.LBB0_13
	.p2align	4
.LBB0_12:
	vmaxss	(%rdx,%r9,4), %xmm0, %xmm26
	vaddss	%xmm1, %xmm26, %xmm27
	vsubss	%xmm27, %xmm1, %xmm28
	vmovd	%xmm27, %r10d
	shll	$23, %r10d
	addl	$1065353216, %r10d
	vaddss	%xmm28, %xmm26, %xmm26
	vmovaps	%xmm2, %xmm28
	vmovd	%r10d, %xmm27
	vfmadd213ss	%xmm3, %xmm26, %xmm28
	vfmadd213ss	%xmm4, %xmm26, %xmm28
	vfmadd213ss	%xmm5, %xmm26, %xmm28
	vfmadd213ss	%xmm6, %xmm26, %xmm28
	vfmadd213ss	%xmm7, %xmm26, %xmm28
	vmulss	%xmm28, %xmm26, %xmm26
	vfmadd213ss	%xmm27, %xmm26, %xmm27
	vmovss	%xmm27, (%rdx,%r9,4)
	incq	%r9
	cmpq	%r9, %rax
	jne	.LBB0_12
	jmp	.LBB0_13
.Lfunc_end0:
	.size	_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, .Lfunc_end0-_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.cfi_endproc

	.globl	_ZN7cpython2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.p2align	4
	.type	_ZN7cpython2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx,@function
_ZN7cpython2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r13
	.cfi_def_cfa_offset 40
	pushq	%r12
	.cfi_def_cfa_offset 48
	pushq	%rbx
	.cfi_def_cfa_offset 56
	subq	$120, %rsp
	.cfi_def_cfa_offset 176
	.cfi_offset %rbx, -56
	.cfi_offset %r12, -48
	.cfi_offset %r13, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	movq	%rsi, %rdi
	movabsq	$.const.exp_only, %rsi
	movabsq	$PyArg_UnpackTuple, %r10
	leaq	40(%rsp), %r8
	leaq	32(%rsp), %r9
	movl	$2, %edx
	movl	$2, %ecx
	xorl	%eax, %eax
	xorl	%ebx, %ebx
	callq	*%r10
	testl	%eax, %eax
	je	.LBB1_8
	movabsq	$_ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, %rax
	cmpq	$0, (%rax)
	je	.LBB1_13
	movq	40(%rsp), %rdi
	movabsq	$NRT_adapt_ndarray_from_python, %rax
	leaq	48(%rsp), %rsi
	vxorps	%xmm0, %xmm0, %xmm0
	vmovups	%ymm0, 48(%rsp)
	vmovups	%ymm0, 72(%rsp)
	vzeroupper
	callq	*%rax
	testl	%eax, %eax
	jne	.LBB1_14
	cmpq	$4, 72(%rsp)
	jne	.LBB1_14
	movq	32(%rsp), %rdi
	movq	48(%rsp), %rbx
	movq	80(%rsp), %r12
	movq	88(%rsp), %r13
	movabsq	$PyNumber_Long, %rax
	callq	*%rax
	testq	%rax, %rax
	je	.LBB1_15
	movq	%rax, %r15
	movabsq	$PyLong_AsLongLong, %rax
	movq	%r15, %rdi
	callq	*%rax
	movabsq	$Py_DecRef, %rbp
	movq	%r15, %rdi
	movq	%rax, %r14
	callq	*%rbp
	movabsq	$PyErr_Occurred, %rax
	callq	*%rax
	testq	%rax, %rax
	jne	.LBB1_16
.LBB1_6:
	movabsq	$_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, %rax
	leaq	112(%rsp), %rdi
	movq	%rbx, %rdx
	movq	%r14, 24(%rsp)
	movq	%r13, 8(%rsp)
	movq	%r12, (%rsp)
	callq	*%rax
	movabsq	$NRT_decref, %r14
	movq	%rbx, %rdi
	movl	%eax, %ebp
	callq	*%r14
	testl	%ebp, %ebp
	jne	.LBB1_9
	movabsq	$_Py_NoneStruct, %rbx
	movabsq	$Py_IncRef, %rax
	movq	%rbx, %rdi
	callq	*%rax
.LBB1_8:
	movq	%rbx, %rax
	addq	$120, %rsp
	.cfi_def_cfa_offset 56
	popq	%rbx
	.cfi_def_cfa_offset 48
	popq	%r12
	.cfi_def_cfa_offset 40
	popq	%r13
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.LBB1_9:
	.cfi_def_cfa_offset 176
	jg	.LBB1_21
	cmpl	$-1, %ebp
	je	.LBB1_18
	cmpl	$-3, %ebp
	jne	.LBB1_19
	movabsq	$PyExc_StopIteration, %rdi
	movabsq	$PyErr_SetNone, %rax
	jmp	.LBB1_17
.LBB1_13:
	movabsq	$PyExc_RuntimeError, %rdi
	movabsq	$".const.missing Environment: _ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx", %rsi
	jmp	.LBB1_20
.LBB1_14:
	movabsq	$PyExc_TypeError, %rdi
	movabsq	$".const.can't unbox array from PyObject into native value.  The object maybe of a different type", %rsi
	jmp	.LBB1_20
.LBB1_15:
	xorl	%r14d, %r14d
	movabsq	$PyErr_Occurred, %rax
	callq	*%rax
	testq	%rax, %rax
	je	.LBB1_6
.LBB1_16:
	movabsq	$NRT_decref, %rax
	movq	%rbx, %rdi
.LBB1_17:
	callq	*%rax
.LBB1_18:
	xorl	%ebx, %ebx
	jmp	.LBB1_8
.LBB1_19:
	movabsq	$PyExc_SystemError, %rdi
	movabsq	$".const.unknown error when calling native function", %rsi
.LBB1_20:
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
	xorl	%ebx, %ebx
	jmp	.LBB1_8
.LBB1_21:
	movabsq	$PyErr_Clear, %rax
	callq	*%rax
.Lfunc_end1:
	.size	_ZN7cpython2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, .Lfunc_end1-_ZN7cpython2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.cfi_endproc

	.globl	cfunc._ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.p2align	4
	.type	cfunc._ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx,@function
cfunc._ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx:
	.cfi_startproc
	pushq	%r14
	.cfi_def_cfa_offset 16
	pushq	%rbx
	.cfi_def_cfa_offset 24
	subq	$56, %rsp
	.cfi_def_cfa_offset 80
	.cfi_offset %rbx, -24
	.cfi_offset %r14, -16
	movq	88(%rsp), %rax
	movq	%rdi, %rdx
	leaq	48(%rsp), %rdi
	movq	$0, 48(%rsp)
	movq	%r9, 8(%rsp)
	movq	%r8, (%rsp)
	movq	%rax, 24(%rsp)
	movabsq	$_ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, %rax
	callq	*%rax
	movq	48(%rsp), %rcx
	movl	$0, 44(%rsp)
	testl	%eax, %eax
	jne	.LBB2_1
.LBB2_5:
	movq	%rcx, %rax
	addq	$56, %rsp
	.cfi_def_cfa_offset 24
	popq	%rbx
	.cfi_def_cfa_offset 16
	popq	%r14
	.cfi_def_cfa_offset 8
	retq
.LBB2_1:
	.cfi_def_cfa_offset 80
	movq	%rcx, %r14
	movabsq	$numba_gil_ensure, %rcx
	leaq	44(%rsp), %rdi
	movl	%eax, %ebx
	callq	*%rcx
	testl	%ebx, %ebx
	jg	.LBB2_2
	movl	%ebx, %eax
	cmpl	$-1, %ebx
	je	.LBB2_4
	cmpl	$-3, %eax
	jne	.LBB2_3
	movabsq	$PyExc_StopIteration, %rdi
	movabsq	$PyErr_SetNone, %rax
	callq	*%rax
	jmp	.LBB2_4
.LBB2_3:
	movabsq	$PyExc_SystemError, %rdi
	movabsq	$".const.unknown error when calling native function.2", %rsi
	movabsq	$PyErr_SetString, %rax
	callq	*%rax
.LBB2_4:
	movabsq	$".const.<numba.core.cpu.CPUContext>", %rdi
	movabsq	$PyUnicode_FromString, %rax
	callq	*%rax
	movq	%rax, %rbx
	movabsq	$PyErr_WriteUnraisable, %rax
	movq	%rbx, %rdi
	callq	*%rax
	movabsq	$Py_DecRef, %rax
	movq	%rbx, %rdi
	callq	*%rax
	movabsq	$numba_gil_release, %rax
	leaq	44(%rsp), %rdi
	callq	*%rax
	movq	%r14, %rcx
	jmp	.LBB2_5
.LBB2_2:
	movabsq	$PyErr_Clear, %rax
	callq	*%rax
.Lfunc_end2:
	.size	cfunc._ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx, .Lfunc_end2-cfunc._ZN2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx
	.cfi_endproc

	.weak	NRT_incref
	.p2align	4
	.type	NRT_incref,@function
NRT_incref:
	testq	%rdi, %rdi
	je	.LBB3_2
	lock		incq	(%rdi)
.LBB3_2:
	retq
.Lfunc_end3:
	.size	NRT_incref, .Lfunc_end3-NRT_incref

	.weak	NRT_decref
	.p2align	4
	.type	NRT_decref,@function
NRT_decref:
	.cfi_startproc
	testq	%rdi, %rdi
	je	.LBB4_2
	#MEMBARRIER
	lock		decq	(%rdi)
	je	.LBB4_3
.LBB4_2:
	retq
.LBB4_3:
	movabsq	$NRT_MemInfo_call_dtor, %rax
	#MEMBARRIER
	jmpq	*%rax
.Lfunc_end4:
	.size	NRT_decref, .Lfunc_end4-NRT_decref
	.cfi_endproc

	.type	.const.exp_only,@object
	.section	.lrodata,"al",@progbits
.const.exp_only:
	.asciz	"exp_only"
	.size	.const.exp_only, 9

	.type	_ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx,@object
	.comm	_ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx,8,8
	.type	".const.missing Environment: _ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx",@object
	.p2align	4, 0x0
".const.missing Environment: _ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx":
	.asciz	"missing Environment: _ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx"
	.size	".const.missing Environment: _ZN08NumbaEnv2t18exp_onlyB2v1B88c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAALoIYpAkAE5ArrayIfLi1E1C7mutable7alignedEx", 175

	.type	".const.can't unbox array from PyObject into native value.  The object maybe of a different type",@object
	.p2align	4, 0x0
".const.can't unbox array from PyObject into native value.  The object maybe of a different type":
	.asciz	"can't unbox array from PyObject into native value.  The object maybe of a different type"
	.size	".const.can't unbox array from PyObject into native value.  The object maybe of a different type", 89

	.type	".const.unknown error when calling native function",@object
	.p2align	4, 0x0
".const.unknown error when calling native function":
	.asciz	"unknown error when calling native function"
	.size	".const.unknown error when calling native function", 43

	.type	".const.unknown error when calling native function.2",@object
	.p2align	4, 0x0
".const.unknown error when calling native function.2":
	.asciz	"unknown error when calling native function"
	.size	".const.unknown error when calling native function.2", 43

	.type	".const.<numba.core.cpu.CPUContext>",@object
	.p2align	4, 0x0
".const.<numba.core.cpu.CPUContext>":
	.asciz	"<numba.core.cpu.CPUContext>"
	.size	".const.<numba.core.cpu.CPUContext>", 28

	.type	_ZN08NumbaEnv6kbench7kernels5tiles21_compile_power_of_two12_3clocals_3e7power32B2v2B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEf,@object
	.comm	_ZN08NumbaEnv6kbench7kernels5tiles21_compile_power_of_two12_3clocals_3e7power32B2v2B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEf,8,8
	.type	_ZN08NumbaEnv5numba7cpython8builtins6ol_max12_3clocals_3e4implB2v3B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAE15StarArgUniTupleIfLi2EE,@object
	.comm	_ZN08NumbaEnv5numba7cpython8builtins6ol_max12_3clocals_3e4implB2v3B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAE15StarArgUniTupleIfLi2EE,8,8
	.type	_ZN08NumbaEnv5numba7cpython7numbers11scalar_view12_3clocals_3e4implB2v4B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEf16class_28int32_29,@object
	.comm	_ZN08NumbaEnv5numba7cpython7numbers11scalar_view12_3clocals_3e4implB2v4B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEf16class_28int32_29,8,8
	.type	_ZN08NumbaEnv5numba7cpython7numbers11scalar_view12_3clocals_3e4implB2v5B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEi18class_28float32_29,@object
	.comm	_ZN08NumbaEnv5numba7cpython7numbers11scalar_view12_3clocals_3e4implB2v5B96c8tJTIeFIjxB2IKSgI4CrvQClYb5wBbdC9XqeXmJeeo6Cup5xVUgKjk_2fr6QoMbkELARMI_2bq1msAAxkgCUHOBQQhmaQIAEi18class_28float32_29,8,8
	.section	".note.GNU-stack","",@progbits
