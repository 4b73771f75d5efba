// Names of Python's that the Python modules of ExecuTorch's wheels take an address of when they are loaded.
//
// The runner calls the runtime inside such a module and never Python, so nothing reads what lies at these addresses.
// Functions are looked for when they are called first, so they need no name here.

#define OBJECT(name) char name[1024]

OBJECT(PyBaseObject_Type);
OBJECT(PyBool_Type);
OBJECT(PyByteArray_Type);
OBJECT(PyCFunction_Type);
OBJECT(PyCapsule_Type);
OBJECT(PyDict_Type);
OBJECT(PyExc_BufferError);
OBJECT(PyExc_ImportError);
OBJECT(PyExc_IndexError);
OBJECT(PyExc_MemoryError);
OBJECT(PyExc_OverflowError);
OBJECT(PyExc_RuntimeError);
OBJECT(PyExc_SystemError);
OBJECT(PyExc_TypeError);
OBJECT(PyExc_ValueError);
OBJECT(PyFloat_Type);
OBJECT(PyInstanceMethod_Type);
OBJECT(PyMethod_Type);
OBJECT(PyModule_Type);
OBJECT(PyObject_GenericGetDict);
OBJECT(PyObject_GenericSetDict);
OBJECT(PyProperty_Type);
OBJECT(PyType_Type);
OBJECT(_Py_FalseStruct);
OBJECT(_Py_NoneStruct);
OBJECT(_Py_NotImplementedStruct);
OBJECT(_Py_TrueStruct);
